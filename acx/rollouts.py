"""Collects rollouts: N environments stepped T times by the actor, into preallocated arrays."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acx.actors import NumpyNetwork
from acx.environments.normalization import ObservationNormalizer
from acx.environments.vector import VectorEnvironment
from acx.errors import RunError
from acx.layouts import Layout
from acx.policies import PolicyHead


@dataclass(frozen=True)
class Episode:
    """A finished training episode: raw return, length in steps."""

    episode_return: float
    length: int


def trajectory_layout(
    rows: tuple[int, int], observation_shape: Sequence[int], action_shape: Sequence[int]
) -> Layout:
    """How a trajectory of [T, N] `rows` lies in one float32 vector: see `Trajectory`'s views."""
    observation, action = tuple(observation_shape), tuple(action_shape)
    return Layout([(*rows, *observation), (rows[1], *observation), (*rows, *action), *[rows] * 6])


class Trajectory:
    """One rollout, time-major: float32 views into one vector. The next rollout reuses it."""

    def __init__(
        self, rows: tuple[int, int], observation_shape: Sequence[int], action_shape: Sequence[int]
    ) -> None:
        layout = trajectory_layout(rows, observation_shape, action_shape)
        self.data = np.zeros(layout.size, np.float32)
        (
            self.observations,  # [T, N, ...] as the network saw them (normalized)
            self.last_observations,  # [N, ...] that the last step led to, normalized
            self.actions,  # [T, N, ...] raw: indices, or samples before squashing and clipping
            self.rewards,  # [T, N] raw
            self.terminated,  # [T, N] 0 or 1
            self.truncated,  # [T, N] 0 or 1; never with terminated
            self.valid,  # [T, N] 0 for rows that are no data
            self.learned_rewards,  # [T, N] what the learner made of the rewards
            self.final_values,  # [T, N] V of the final observation where truncated, else 0
        ) = layout.split(self.data)
        self.valid[:] = 1.0
        # [K, ...] of the K truncated rows in (t, n) order, normalized
        self.final_observations = np.empty((0, *observation_shape), np.float32)
        self.raw_observations = np.empty((*rows, *observation_shape), np.float32)
        self.episodes: list[Episode] = []


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
        self._trajectory = Trajectory(
            (rollout_length, environments.num_envs), self._raw.shape[1:], head.action_shape
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
