"""Evaluation on environments of its own: it never touches training's environments or streams."""

from dataclasses import dataclass

import numpy as np

from acx.actors import NumpyNetwork
from acx.config import PositiveInt, configurable
from acx.environments.factory import Environment
from acx.environments.normalization import ObservationNormalizer, network_inputs
from acx.environments.vector import Transition
from acx.errors import RunError
from acx.policies import PolicyHead
from acx.seeding import Stream, episode_seed


@dataclass(frozen=True)
class EvaluationResult:
    """Raw returns [K] and lengths [K] of K whole episodes, in the order of their seeds."""

    returns: np.ndarray
    lengths: np.ndarray

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """The standard deviation of the return over episodes."""
        return float(self.returns.std())


@configurable
class Evaluation:
    """When and how the deterministic policy is evaluated.

    Args:
      every: environment steps between evaluations during training; None is never.
      episodes: episodes of such an evaluation; always the same fixed, distinct seeds.
      final_episodes: episodes after training, on seeds of their own.
    """

    def __init__(
        self,
        every: PositiveInt | None = None,
        episodes: PositiveInt = 10,
        final_episodes: PositiveInt = 100,
    ) -> None:
        self.every = every
        self.episodes = episodes
        self.final_episodes = final_episodes


def deterministic_actions(
    head: PolicyHead,
    actor: NumpyNetwork,
    normalizer: ObservationNormalizer | None,
    observations: np.ndarray,
) -> np.ndarray:
    """What the policy's mode sends to the environment for raw observations [N, ...]."""
    outputs = actor(network_inputs(normalizer, observations))
    return head.environment_action(head.mode(outputs))


def evaluate(
    environment: Environment,
    head: PolicyHead,
    actor: NumpyNetwork,
    normalizer: ObservationNormalizer | None,
    episodes: int,
    seed: int,
    stream: Stream,
    max_steps: int = 1_000_000,
) -> EvaluationResult:
    """Play `episodes` whole episodes with the policy's mode.

    Environment i of n plays episodes i, i + n, …, each to its end, so short episodes don't count
    more often than long ones.

    Raises:
      RunError: an environment failed or returned something that is not finite, or an episode had no
        end within `max_steps`.
    """
    num_envs = min(episodes, 20)
    envs = environment.make_sync(num_envs, lambda i, e: episode_seed(seed, stream, i, e))
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    playing = np.arange(num_envs)  # the episode number that each environment is in
    try:
        observations = envs.reset()
        for _ in range(max_steps):
            actions = deterministic_actions(head, actor, normalizer, observations)
            step = envs.step(actions)
            active = playing < episodes
            if not (np.isfinite(step.rewards).all() and np.isfinite(step.observations).all()):
                raise _not_finite(step)
            returns[playing[active]] += step.rewards[active]
            lengths[playing[active]] += 1
            playing = playing + num_envs * (step.terminated | step.truncated)
            if not (playing < episodes).any():
                return EvaluationResult(returns, lengths)
            observations = step.observations
        raise RunError(
            f"an evaluation episode of {environment.env_id} has no end after {max_steps:,} steps: "
            "give the environment a time limit (env_options = {'max_episode_steps': ...})"
        )
    finally:
        envs.close()


def _not_finite(step: Transition) -> RunError:
    """The first reward or observation of a step that is NaN or infinite."""
    for name, values in (("reward", step.rewards), ("observation", step.observations)):
        for i, value in enumerate(values):
            if not np.isfinite(value).all():
                return RunError(
                    f"environment {i} of the evaluation returned the {name} {value}: "
                    "it is not finite"
                )
    raise AssertionError("all is finite")
