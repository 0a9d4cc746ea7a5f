"""Collects rollouts: N environments stepped T times by the actor, into preallocated arrays."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from acx.actors import NumpyNetwork
from acx.environments.normalization import ObservationNormalizer
from acx.environments.vector import VectorEnvironment
from acx.errors import RunError
from acx.policies import PolicyHead


@dataclass(frozen=True)
class Episode:
    """A finished training episode: raw return, length in steps."""

    episode_return: float
    length: int


@dataclass
class Trajectory:
    """One rollout, time-major. The arrays are reused by the next one."""

    observations: np.ndarray  # [T, N, ...] as the network saw them (normalized), float32
    actions: np.ndarray  # [T, N, ...] raw: indices, or samples before squashing and clipping
    rewards: np.ndarray  # [T, N] raw, float32
    terminated: np.ndarray  # [T, N] float32, 0 or 1
    truncated: np.ndarray  # [T, N] float32, 0 or 1; never with terminated
    valid: np.ndarray  # [T, N] float32, 0 for rows that are no data
    last_observations: np.ndarray  # [N, ...] that the last step led to, normalized
    final_observations: np.ndarray  # [K, ...] of the K truncated rows in (t, n) order, normalized
    raw_observations: np.ndarray | None  # [T, N, ...] before normalization, if there is one
    episodes: list[Episode] = field(default_factory=list)


class EpisodeStatistics:
    """Raw returns and lengths of the episodes in progress, and of the last 100 that ended."""

    def __init__(self, num_envs: int) -> None:
        self.returns = np.zeros(num_envs, np.float64)
        self.lengths = np.zeros(num_envs, np.int64)
        self.recent: deque[Episode] = deque(maxlen=100)
        self.finished = 0

    def add(self, rewards: np.ndarray, done: np.ndarray, valid: np.ndarray | None) -> list[Episode]:
        """Count one step [N]; returns the episodes that it ended."""
        self.returns += rewards
        self.lengths += 1 if valid is None else valid
        if not done.any():
            return []
        ended = [
            Episode(float(self.returns[i]), int(self.lengths[i])) for i in np.flatnonzero(done)
        ]
        self.returns[done] = 0.0
        self.lengths[done] = 0
        self.recent.extend(ended)
        self.finished += len(ended)
        return ended


class RolloutCollector:
    """Acts in the environments.

    Args:
      environments: the training environments.
      head: turns the actor's outputs into actions.
      actor: the actor network; reload it after each update.
      normalizer: the agent's observation normalizer, which this class reads but never updates.
      rollout_length: T.
      rng: the stream of action noise.
    """

    def __init__(
        self,
        environments: VectorEnvironment,
        head: PolicyHead,
        actor: NumpyNetwork,
        normalizer: ObservationNormalizer | None,
        rollout_length: int,
        rng: np.random.Generator,
    ) -> None:
        self.environments = environments
        self.head = head
        self.actor = actor
        self.normalizer = normalizer
        self.rng = rng
        self.statistics = EpisodeStatistics(environments.num_envs)
        self.env_steps = 0
        self._raw = environments.reset()
        rows = (rollout_length, environments.num_envs)
        shape = self._raw.shape[1:]
        self._trajectory = Trajectory(
            observations=np.empty((*rows, *shape), np.float32),
            actions=np.empty((*rows, *head.action_shape), head.action_dtype),
            rewards=np.empty(rows, np.float32),
            terminated=np.empty(rows, np.float32),
            truncated=np.empty(rows, np.float32),
            valid=np.ones(rows, np.float32),
            last_observations=np.empty((environments.num_envs, *shape), np.float32),
            final_observations=np.empty((0, *shape), np.float32),
            raw_observations=None if normalizer is None else np.empty((*rows, *shape), np.float32),
        )

    def collect(self) -> Trajectory:
        """Step every environment T times.

        Raises:
          RunError: an environment failed, or an observation or reward is not finite.
        """
        out, head = self._trajectory, self.head
        length = len(out.rewards)
        noise = head.noise(self.rng, out.rewards.shape)
        out.episodes, finals = [], []
        for t in range(length):
            observations = self._observe(t)
            actions = head.sample(self.actor(observations), noise[t])
            out.actions[t] = actions
            step = self.environments.step(head.environment_action(actions))
            out.rewards[t] = step.rewards
            out.terminated[t] = step.terminated
            out.truncated[t] = step.truncated
            if step.valid is not None:
                out.valid[t] = step.valid
            if len(step.final_observations):
                finals.append(step.final_observations)
            done = step.terminated | step.truncated
            out.episodes += self.statistics.add(step.rewards, done, step.valid)
            self._raw = step.observations
        out.last_observations[:] = self._normalized(self._raw)
        shape = out.last_observations.shape[1:]
        out.final_observations = (
            self._normalized(np.concatenate(finals))
            if finals
            else np.empty((0, *shape), np.float32)
        )
        self._check_finite(out)
        self.env_steps += int(out.valid.sum())
        return out

    def _observe(self, t: int) -> np.ndarray:
        """Copy the present observations into row t, normalized."""
        out = self._trajectory
        if self.normalizer is None:
            out.observations[t] = self._raw
        else:
            assert out.raw_observations is not None
            out.raw_observations[t] = self._raw
            out.observations[t] = self.normalizer.normalize(self._raw)
        return out.observations[t]

    def _normalized(self, observations: np.ndarray) -> np.ndarray:
        if self.normalizer is None:
            return np.asarray(observations, np.float32)
        return self.normalizer.normalize(observations)

    def _check_finite(self, out: Trajectory) -> None:
        for name, array in (
            ("observation", out.observations),
            ("reward", out.rewards),
            ("observation", out.last_observations[None]),
        ):
            finite = np.isfinite(array).reshape(*array.shape[:2], -1).all(axis=-1)
            if not finite.all():
                t, i = np.argwhere(~finite)[0]
                step = self.env_steps + int(t) * len(self._raw)
                raise RunError(
                    f"environment {i} returned the {name} {array[t, i]} about "
                    f"{step:,} environment steps into training: it is not finite, so this "
                    "rollout was thrown away and the weights are as before it"
                )
        if not np.isfinite(out.final_observations).all():
            raise RunError("an episode's final observation is not finite")
