"""Environments stepped one after another in this process, with little around them."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class _QuickDiscrete(Discrete):
    """A Discrete space that answers for a Python int without NumPy: a fifth of a cheap step."""

    def contains(self, x: Any) -> bool:
        return bool(0 <= x - self.start < self.n) if type(x) is int else super().contains(x)


class LocalVectorEnv(SyncVectorEnv):
    """Gymnasium's SyncVectorEnv for Box observations and masked resets, without infos.

    What is returned are buffers that the next step overwrites: copy what is to be kept.
    """

    def __init__(self, makers: Any) -> None:
        super().__init__(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
        self._discrete = isinstance(self.single_action_space, Discrete)
        for env in self.envs:
            space = env.unwrapped.action_space
            if type(space) is Discrete:
                space.__class__ = _QuickDiscrete

    def return_in(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Use these buffers from now on: [N, ...] of the observations, [N] of the others."""
        self._observations, self._rewards = observations, rewards
        self._terminations, self._truncations = terminated, truncated

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all: one action each, [N, ...]."""
        # Gymnasium checks a Python int several times faster than a NumPy one.
        each = actions.tolist() if self._discrete else actions
        observations, rewards = self._observations, self._rewards
        terminated, truncated = self._terminations, self._truncations
        for i, env in enumerate(self.envs):
            observations[i], rewards[i], terminated[i], truncated[i], _ = env.step(each[i])
        return observations, rewards, terminated, truncated, {}

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset all, or those in `options["reset_mask"]`, each with its entry of `seed`."""
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        for i in np.flatnonzero(mask):
            self._observations[i], _ = self.envs[i].reset(seed=seed[i])
        return self._observations, {}
