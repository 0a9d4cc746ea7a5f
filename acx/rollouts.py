"""Collects rollouts: N environments stepped T times by the actor, into preallocated arrays."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from acx.actors import NumpyNetwork
from acx.environments.normalization import ObservationNormalizer, network_inputs
from acx.environments.vector import VectorEnvironment
from acx.errors import NonFiniteError
from acx.layouts import Layout
from acx.policies import PolicyHead
from acx.seeding import generator_state, load_generator_state
from acx.states import State, merged, part


@dataclass(frozen=True)
class Episode:
    """A finished training episode: raw return, length in steps."""

    episode_return: float
    length: int


def episodes_array(episodes: Iterable[Episode]) -> np.ndarray:
    """Episodes as float64 [K, 2]."""
    rows = [(episode.episode_return, episode.length) for episode in episodes]
    return np.array(rows, np.float64).reshape(-1, 2)


def episodes_list(array: np.ndarray) -> list[Episode]:
    """The inverse of `episodes_array`."""
    return [Episode(float(episode_return), int(length)) for episode_return, length in array]


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
            self.final_values,  # [T, N] the critic's output where truncated, else 0
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

    def state(self) -> State:
        """Everything, as arrays."""
        return {
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "recent": episodes_array(self.recent),
            "finished": np.asarray(self.finished),
        }

    def load_state(self, state: State) -> None:
        """Go on from `state()`."""
        self.returns, self.lengths = state["returns"].copy(), state["lengths"].copy()
        self.recent.clear()
        self.recent.extend(episodes_list(state["recent"]))
        self.finished = int(state["finished"])

    def step(self, rewards: np.ndarray, valid: np.ndarray | None) -> None:
        """Count one step [N]."""
        self.returns += rewards
        self.lengths += 1 if valid is None else valid

    def end(self, done: np.ndarray) -> list[Episode]:
        """Take the episodes of the environments in `done` [N] as finished; returns them."""
        ended = [
            Episode(float(self.returns[i]), int(self.lengths[i])) for i in np.flatnonzero(done)
        ]
        self.returns[done] = 0.0
        self.lengths[done] = 0
        self.recent.extend(ended)
        self.finished += len(ended)
        return ended

    def forget(self, count: int) -> None:
        """Take the last `count` finished episodes as never having been."""
        for _ in range(min(count, len(self.recent))):
            self.recent.pop()
        self.finished -= count

    def drop_open(self) -> None:
        """Forget the episodes in progress."""
        self.returns[:] = 0.0
        self.lengths[:] = 0


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

    def state(self) -> State:
        """Everything that the next rollout depends on, but the actor and the normalizer."""
        return {
            "env_steps": np.asarray(self.env_steps),
            "observations": np.array(self._raw),
            "rng": generator_state(self.rng),
            **merged(
                {"statistics": self.statistics.state(), "environments": self.environments.state()}
            ),
        }

    def load_state(self, state: State) -> bool:
        """Go on from `state()`; returns whether the open episodes could be continued.

        Where they could not (an environment that resets by itself, or isn't deterministic), new
        episodes are started, and the partial returns of the old ones are dropped.
        """
        self.env_steps = int(state["env_steps"])
        load_generator_state(self.rng, state["rng"])
        self.statistics.load_state(part(state, "statistics"))
        replayed = self.environments.replay(part(state, "environments"))
        if replayed is not None and np.array_equal(replayed, state["observations"]):
            self._raw = replayed
            return True
        self.restart()
        return False

    def restart(self) -> None:
        """Leave the open episodes and start new ones everywhere."""
        self._raw = self.environments.reset()
        self.statistics.drop_open()

    @np.errstate(invalid="ignore")  # an observation that isn't finite is refused in the end
    def collect(self) -> Trajectory:
        """Step every environment T times.

        Raises:
          RunError: an environment failed.
          NonFiniteError: an observation or reward is not finite. The steps count, nothing else
            does; `restart` comes next.
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
            self.statistics.step(step.rewards, step.valid)
            if step.final_observations is not None:
                finals.append(step.final_observations)
                out.episodes += self.statistics.end(step.terminated | step.truncated)
            self._raw = step.observations
        final = np.concatenate(finals) if finals else np.empty((0, *self._raw.shape[1:]))
        self.env_steps += int(out.valid.sum())
        try:
            self._check_finite(out, final)
        except NonFiniteError:
            self.statistics.forget(len(out.episodes))
            raise
        out.last_observations[:] = network_inputs(self.normalizer, self._raw)
        out.final_observations = network_inputs(self.normalizer, final)
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

    def _check_finite(self, out: Trajectory, final: np.ndarray) -> None:
        """Refuse NaN and infinity, in what the environments returned: normalizing clips."""
        seen = out.observations if self.normalizer is None else out.raw_observations
        if all(np.isfinite(array).all() for array in (seen, out.rewards, self._raw, final)):
            return
        every = np.argwhere(np.ones_like(out.rewards))
        rows = out.rewards.size
        for name, array, places in (
            ("observation", seen.reshape(rows, -1), every),
            ("reward", out.rewards.reshape(rows, 1), every),
            ("observation", self._raw.reshape(len(self._raw), -1), every[-len(self._raw) :]),
            (
                "observation",
                final.reshape(len(final), math.prod(final.shape[1:])),
                np.argwhere(out.truncated > 0),
            ),
        ):
            bad = np.flatnonzero(~np.isfinite(array).all(axis=-1))
            if len(bad):
                t, i = places[bad[0]]
                step = self.env_steps - int(out.valid.sum()) + int(t) * len(self._raw)
                raise NonFiniteError(
                    f"environment {i} returned the {name} {array[bad[0]]} about "
                    f"{step:,} environment steps into training: it is not finite, so this "
                    "rollout was thrown away and the weights are as before it"
                )
