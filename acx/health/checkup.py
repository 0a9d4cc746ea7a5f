"""Looks at an environment before training: random episodes, as training would see them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from acx.errors import RunError
from acx.health.context import Context
from acx.health.diagnoses import examine
from acx.health.findings import Finding, History
from acx.policies import GaussianHead, GaussianTanhHead

REPLAYED = 200  # steps at most of the episode that is played twice
SEEDS = (0, 1, 2, 3)


@dataclass
class Played:
    """Episodes of random actions, the last one not necessarily to its end.

    Attributes:
      observations: those that were acted on, [K, ...].
      rewards: of each step, [K].
      returns, lengths: of the episodes that ended.
      terminated, truncated: how many did so.
      repeated: steps within an episode that changed nothing.
      discounted: Σ γᵏ r of each step to the end of its episode, [K].
    """

    observations: np.ndarray
    rewards: np.ndarray
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    repeated: int = 0
    discounted: np.ndarray = field(default_factory=lambda: np.zeros(0))


def play(env: gymnasium.Env[Any, Any], steps: int, gamma: float) -> Played:
    """Take so many random steps.

    Raises:
      RunError: the environment misbehaves.
    """
    env.action_space.seed(0)
    observations, rewards, ends = [], [], [0]
    played = Played(np.zeros(0), np.zeros(0))
    observation, _ = env.reset(seed=0)
    for step in range(1, steps + 1):
        observations.append(np.array(observation, np.float32))
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards.append(float(reward))
        _refuse_nonfinite(env, step, reward, observation)
        if terminated or truncated:
            played.lengths.append(step - ends[-1])
            played.returns.append(sum(rewards[ends[-1] :]))
            played.terminated += bool(terminated)
            played.truncated += bool(truncated and not terminated)
            ends.append(step)
            observation, _ = env.reset(seed=len(ends) - 1)
        else:
            played.repeated += np.array_equal(observation, observations[-1])
    played.observations, played.rewards = np.array(observations), np.array(rewards)
    played.discounted = np.concatenate(
        [
            _discounted(played.rewards[start:end], gamma)
            for start, end in zip(ends, [*ends[1:], steps], strict=True)
        ]
    )
    return played


def _refuse_nonfinite(env: gymnasium.Env[Any, Any], step: int, *values: Any) -> None:
    for value in values:
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise RunError(f"random step {step} returned {value}: it is not finite")


def _discounted(rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Σ γᵏ r_{t+k} for each t of one episode [K]."""
    sums, total = np.zeros(len(rewards)), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        total = rewards[t] + gamma * total
        sums[t] = total
    return sums


def scalars(played: Played, context: Context) -> dict[str, float]:
    """What a report of these episodes would say, before anything is learned."""
    found: dict[str, float] = {"rollout/episodes": len(played.lengths)}
    if played.lengths:
        found["rollout/ep_len_mean"] = float(np.mean(played.lengths))
        found["rollout/ep_rew_mean"] = float(np.mean(played.returns))
        found["rollout/ep_rew_min"] = min(played.returns)
        found["rollout/ep_rew_max"] = max(played.returns)
    steps = len(played.rewards)
    if context.experiment.agent.observation_normalizer is None:
        flat = played.observations.reshape(steps, -1).astype(np.float64)
        found["train/observation_rms"] = math.sqrt(np.square(flat).mean(axis=0).max())
        found["train/observation_max"] = float(np.abs(flat).max())
    targets = played.discounted * context.reward_scale
    found |= {
        "train/terminated_share": played.terminated / steps,
        "train/truncated_share": played.truncated / steps,
        "train/repeated_observations": played.repeated / max(steps - len(played.lengths), 1),
        "train/reward_nonzero": float(np.count_nonzero(played.rewards) / steps),
        "train/return_mean": float(targets.mean()),
        "train/return_std": float(targets.std()),
        "train/value_mean": 0.0,
    }
    return found | _first_policy(context)


def _first_policy(context: Context) -> dict[str, float]:
    """Of a Gaussian head with means of 0: its σ, and how many actions come to lie at a bound."""
    head = context.head
    if not isinstance(head, GaussianHead | GaussianTanhHead):
        return {}
    std = math.exp(head.initial_log_std)
    bound = math.atanh(0.98) if isinstance(head, GaussianTanhHead) else context.half_width
    return {
        "train/std": std,
        "train/actions_at_bounds": math.erfc(bound / std / math.sqrt(2.0)),
        "train/means_at_bounds": 0.0,
    }


def examine_environment(context: Context, steps: int) -> tuple[list[Finding], Played | None]:
    """What random episodes and the configuration tell before training.

    Args:
      context: of the experiment.
      steps: random steps.

    Returns:
      The findings, and what was played; None where the environment fails.
    """
    try:
        env = context.experiment.environment.make_single()
        try:
            played = play(env, steps, context.gamma or 0.99)
            history = History(context.total_steps, whole=True)
            history.append(0, scalars(played, context))
            findings = examine(history, context, set())
            return [*findings, *_seeding(env, context), *_endless(played, context)], played
        finally:
            env.close()
    except RunError as error:
        name = "environment fails"
        why = "acx stops rather than learn from it."
        return [Finding(name, "error", f"{error}.", why, advice="Mend the environment.")], None


def _seeding(env: gymnasium.Env[Any, Any], context: Context) -> Iterator[Finding]:
    first, again = (_replay(env, SEEDS[0]) for _ in range(2))
    if not all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)):
        yield Finding(
            "seeds don't repeat",
            "info",
            "The same seed and the same actions gave two different episodes.",
            "Runs can't be repeated, and a resumed run can't continue its open episodes.",
            advice="Draw all randomness from self.np_random, which reset(seed=…) seeds.",
        )
    starts = [np.array(env.reset(seed=seed)[0]) for seed in SEEDS]
    if not all(np.array_equal(start, starts[0]) for start in starts):
        return
    unseeded = [np.array(env.reset()[0]) for _ in SEEDS]
    if not all(np.array_equal(start, starts[0]) for start in unseeded):
        yield Finding(
            "seeds coincide",
            "warning",
            f"Seeds {', '.join(map(str, SEEDS))} start from the same observation, though starts "
            "differ without a seed.",
            f"All {context.experiment.environment.num_envs} environments play the same episodes.",
            advice="Let reset(seed=…) pass its seed to super().reset and draw from self.np_random.",
        )


def _replay(env: gymnasium.Env[Any, Any], seed: int) -> list[np.ndarray]:
    """Observations and rewards of an episode with the same random actions each time."""
    env.action_space.seed(1)
    seen = [np.array(env.reset(seed=seed)[0], np.float64)]
    for _ in range(REPLAYED):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen += [np.array(observation, np.float64), np.array(float(reward))]
        if terminated or truncated:
            break
    return seen


def _endless(played: Played, context: Context) -> Iterator[Finding]:
    if not played.lengths and context.time_limit is None:
        yield Finding(
            "no end",
            "warning",
            f"No episode ended in {len(played.rewards):,} random steps; there is no time limit.",
            "Evaluation plays whole episodes, and training never sees a return.",
            "Environment.env_options = "
            f"{ {**context.experiment.environment.env_options, 'max_episode_steps': 1000}!r}",
        )
