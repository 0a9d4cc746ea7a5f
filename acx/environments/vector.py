"""One contract over every vector environment: episodes end the same way whoever resets them.

Gymnasium's vector environments reset in one of three ways (`metadata["autoreset_mode"]`):

  DISABLED   the caller resets; here by masked resets with a seed for each episode (the default)
  NEXT_STEP  the environment resets in the step after an episode's end; that row is no data
  SAME_STEP  the environment resets at once and hands the last observation over in `infos`

`VectorEnvironment` turns all three into the same transitions.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from acx.environments.envpool import EnvPoolVectorEnv
from acx.environments.guard import WORKER_FAILURES, attributed
from acx.environments.parallel import ParallelVectorEnv
from acx.errors import ConfigError
from acx.states import State


class Transition(NamedTuple):
    """What one step of N environments led to."""

    observations: np.ndarray  # [N, ...] to act on next; of the new episode where one ended
    rewards: np.ndarray  # [N] raw
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool; False where terminated is True: termination wins
    valid: np.ndarray | None  # [N] bool, False for rows that are no data; None: all are
    # [K, ...] the true next observations of the K truncated rows; None: no episode ended
    final_observations: np.ndarray | None


EpisodeSeed = Callable[[int, int], int]


class VectorEnvironment:
    """N environments stepped together.

    Args:
      envs: a Gymnasium vector environment.
      episode_seed: the seed of (environment index, episode number). With DISABLED autoreset every
        episode starts from its own seed; the other modes can seed the first episode only.

    Raises:
      ConfigError: the vector environment doesn't say how it resets.
    """

    def __init__(self, envs: gymnasium.vector.VectorEnv, episode_seed: EpisodeSeed) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ConfigError(
                f"{type(envs.unwrapped).__name__}.metadata['autoreset_mode'] is {mode!r}: a vector "
                "environment must say how it resets, by a gymnasium.vector.AutoresetMode",
                "Environment",
                "env_id",
            )
        self.envs = envs
        self.mode = mode
        self.num_envs = envs.num_envs
        self.episodes = np.zeros(self.num_envs, np.int64)
        self._episode_seed = episode_seed
        # NEXT_STEP: [N] bool, whose next row is a reset; None: nobody's
        self._ended: np.ndarray | None = None
        self._all_valid = np.ones(self.num_envs, bool)
        self._actions: list[np.ndarray] = []  # of the open episodes, for `replay`
        self._lengths = np.zeros(self.num_envs, np.int64)  # steps of each open episode
        self._advance = {
            AutoresetMode.DISABLED: self._reset_ended,
            AutoresetMode.NEXT_STEP: self._reset_next_step,
            AutoresetMode.SAME_STEP: self._reset_same_step,
        }[mode]

    def reset(self) -> np.ndarray:
        """Start the next episode everywhere: observations [N, ...]."""
        self._ended = None
        seeds = [self._episode_seed(i, int(e)) for i, e in enumerate(self.episodes)]
        # Native vector environments take one seed for all, as VectorEnv's signature says.
        several = isinstance(
            self.envs.unwrapped,
            gymnasium.vector.SyncVectorEnv
            | gymnasium.vector.AsyncVectorEnv
            | ParallelVectorEnv
            | EnvPoolVectorEnv,
        )
        seed: Any = seeds if several else seeds[0]
        observations, _ = self._attempt(self.envs.reset, seed=seed)
        self.episodes += 1
        self._actions, self._lengths[:] = [], 0
        return np.array(observations)

    def step(self, actions: np.ndarray) -> Transition:
        """Step with one action an environment.

        Raises:
          RunError: an environment raised, died, hung or returned what it may not.
        """
        observations, rewards, terminated, truncated, infos = self._attempt(self.envs.step, actions)
        truncated = truncated & ~terminated
        return self._advance(actions, observations, rewards, terminated, truncated, infos)

    def state(self) -> State:
        """How to come back here: episode numbers, and the actions of the open episodes."""
        length = int(self._lengths.max())
        actions = self._actions[len(self._actions) - length :]
        return {
            "episodes": self.episodes.copy(),
            "lengths": self._lengths.copy(),
            "actions": np.array(actions),
        }

    def replay(self, state: State) -> np.ndarray | None:
        """Start the open episodes of `state()` again and repeat their actions.

        All environments step together, so one whose episode is younger than the oldest first
        plays on with what it did before, and is reset with its seed when its turn comes.

        Returns:
          The observations [N, ...] that the replay ends in, or None where this vector
          environment can't be replayed because it resets by itself.
        """
        if self.mode is not AutoresetMode.DISABLED:
            self.episodes = state["episodes"].copy()
            return None
        lengths, actions = state["lengths"], state["actions"]
        self.episodes = state["episodes"] - 1
        observations = self.reset()
        for t, row in enumerate(actions, start=1):
            observations, _, terminated, truncated, _ = self._attempt(self.envs.step, row)
            due = len(actions) - lengths == t
            again = due | ((terminated | truncated) & (len(actions) - lengths > t))
            if again.any():
                observations = self._masked_reset(again, self.episodes - 1)
        self._actions, self._lengths = list(actions), lengths.copy()
        return np.array(observations)

    def _attempt(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except WORKER_FAILURES as error:
            raise attributed(self.envs.unwrapped, error) from None

    def _masked_reset(self, mask: np.ndarray, episodes: np.ndarray) -> np.ndarray:
        """Reset the environments in `mask`, each with the seed of its episode number."""
        seeds: Any = [None] * self.num_envs
        for i in np.flatnonzero(mask):
            seeds[i] = self._episode_seed(int(i), int(episodes[i]))
        observations, _ = self._attempt(self.envs.reset, seed=seeds, options={"reset_mask": mask})
        return observations

    def _reset_ended(
        self,
        actions: np.ndarray,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        self._actions.append(np.array(actions))
        self._lengths += 1
        done = terminated | truncated
        if not done.any():
            return Transition(observations, rewards, terminated, truncated, None, None)
        final = observations[truncated]
        observations = self._masked_reset(done, self.episodes)
        self.episodes += done
        self._lengths[done] = 0
        spare = len(self._actions) - int(self._lengths.max())
        if spare > len(self._actions) // 2:  # actions of episodes that are over
            del self._actions[:spare]
        return Transition(observations, rewards, terminated, truncated, None, final)

    def _reset_next_step(
        self,
        actions: np.ndarray,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        valid = self._all_valid
        if self._ended is not None:  # these rows are resets: whatever they hold is no data
            valid = ~self._ended
            terminated, truncated = terminated & valid, truncated & valid
            rewards = np.where(valid, rewards, 0.0)
            self.episodes += self._ended
        ended = terminated | truncated
        if not ended.any():
            self._ended = None
            return Transition(observations, rewards, terminated, truncated, valid, None)
        self._ended = ended
        final = observations[truncated]
        return Transition(observations, rewards, terminated, truncated, valid, final)

    def _reset_same_step(
        self,
        actions: np.ndarray,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        done = terminated | truncated
        if not done.any():
            return Transition(observations, rewards, terminated, truncated, None, None)
        self.episodes += done
        final = observations[truncated]
        for row, i in enumerate(np.flatnonzero(truncated)):
            final[row] = infos["final_obs"][i]
        return Transition(observations, rewards, terminated, truncated, None, final)

    def close(self) -> None:
        """End worker processes, also hung or broken ones."""
        if isinstance(self.envs.unwrapped, gymnasium.vector.AsyncVectorEnv):
            with warnings.catch_warnings():  # that a step is not over, which is why
                warnings.simplefilter("ignore")
                self.envs.close(terminate=True)
        else:
            self.envs.close()
