"""One contract over every vector environment: episodes end the same way whoever resets them.

Gymnasium's vector environments reset in one of three ways (`metadata["autoreset_mode"]`):

  DISABLED   the caller resets; here by masked resets with a seed for each episode (the default)
  NEXT_STEP  the environment resets in the step after an episode's end; that row is no data
  SAME_STEP  the environment resets at once and hands the last observation over in `infos`

`VectorEnvironment` turns all three into the same transitions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from acx.environments.guard import attribute_failures
from acx.errors import ConfigError


class Transition(NamedTuple):
    """What one step of N environments led to."""

    observations: np.ndarray  # [N, ...] to act on next; of the new episode where one ended
    rewards: np.ndarray  # [N] raw
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool; False where terminated is True: termination wins
    valid: np.ndarray | None  # [N] bool, False for rows that are no data; None: all are
    final_observations: np.ndarray  # [K, ...] the true next observations of the truncated rows


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
                f"{type(envs).__name__}.metadata['autoreset_mode'] is {mode!r}: a vector "
                "environment must say how it resets, by a gymnasium.vector.AutoresetMode"
            )
        self.envs = envs
        self.mode = mode
        self.num_envs = envs.num_envs
        self.episodes = np.zeros(self.num_envs, np.int64)
        self._episode_seed = episode_seed
        self._ended = np.zeros(self.num_envs, bool)
        self._advance = {
            AutoresetMode.DISABLED: self._reset_ended,
            AutoresetMode.NEXT_STEP: self._reset_next_step,
            AutoresetMode.SAME_STEP: self._reset_same_step,
        }[mode]

    def reset(self) -> np.ndarray:
        """Start the next episode everywhere: observations [N, ...]."""
        self._ended[:] = False
        seeds = [self._episode_seed(i, int(e)) for i, e in enumerate(self.episodes)]
        # Native vector environments take one seed for all, as VectorEnv's signature says.
        several = isinstance(
            self.envs, gymnasium.vector.SyncVectorEnv | gymnasium.vector.AsyncVectorEnv
        )
        seed: Any = seeds if several else seeds[0]
        with attribute_failures(self.envs):
            observations, _ = self.envs.reset(seed=seed)
        self.episodes += 1
        return np.array(observations)

    def step(self, actions: np.ndarray) -> Transition:
        """Step with one action an environment.

        Raises:
          RunError: an environment raised, died, hung or returned what it may not.
        """
        with attribute_failures(self.envs):
            observations, rewards, terminated, truncated, infos = self.envs.step(actions)
        truncated = truncated & ~terminated
        return self._advance(observations, rewards, terminated, truncated, infos)

    def _reset_ended(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        done = terminated | truncated
        final = observations[truncated]
        if done.any():
            seeds: Any = [None] * self.num_envs
            for i in np.flatnonzero(done):
                seeds[i] = self._episode_seed(int(i), int(self.episodes[i]))
            self.episodes += done
            with attribute_failures(self.envs):
                observations, _ = self.envs.reset(seed=seeds, options={"reset_mask": done})
        return Transition(observations, rewards, terminated, truncated, None, final)

    def _reset_next_step(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        inserted = self._ended  # these rows are resets: whatever they hold is no data
        terminated, truncated = terminated & ~inserted, truncated & ~inserted
        self.episodes += inserted
        self._ended = terminated | truncated
        rewards = np.where(inserted, 0.0, rewards)
        final = observations[truncated]
        return Transition(observations, rewards, terminated, truncated, ~inserted, final)

    def _reset_same_step(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
    ) -> Transition:
        self.episodes += terminated | truncated
        final = observations[truncated]
        for row, i in enumerate(np.flatnonzero(truncated)):
            final[row] = infos["final_obs"][i]
        return Transition(observations, rewards, terminated, truncated, None, final)

    def close(self) -> None:
        """End worker processes, also hung or broken ones."""
        if isinstance(self.envs, gymnasium.vector.AsyncVectorEnv):
            self.envs.close(terminate=True)
        else:
            self.envs.close()
