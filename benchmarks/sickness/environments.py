"""Gymnasium's tasks with a flaw: 'benchmarks.sickness.environments:SickCartPole-v0' and others."""

from typing import Any

import gymnasium
import numpy as np


class Flawed(gymnasium.Wrapper):
    """An environment with flaws, none by default.

    Args:
      env: the healthy one.
      observation_scale: factor on observations.
      observation_offset: added to observations after that.
      reward_scale: factor on rewards.
      reward: what every step is rewarded with instead; None keeps the task's own.
      repeats: share of steps that do nothing and return the last observation again.
      ignores_seed: start every episode from the same seed.
      nan_after: the number of steps after which observations are NaN; None is never.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        observation_scale: float = 1.0,
        observation_offset: float = 0.0,
        reward_scale: float = 1.0,
        reward: float | None = None,
        repeats: float = 0.0,
        ignores_seed: bool = False,
        nan_after: int | None = None,
    ) -> None:
        super().__init__(env)
        self._scale, self._offset = observation_scale, observation_offset
        self._reward_scale, self._reward = reward_scale, reward
        self._repeats, self._ignores_seed, self._nan_after = repeats, ignores_seed, nan_after
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, space.shape, np.float32)
        self._steps = 0

    def _observe(self, observation: Any) -> np.ndarray:
        seen = np.asarray(observation * self._scale + self._offset, np.float32)
        if self._nan_after is not None and self._steps > self._nan_after:
            seen = np.full_like(seen, np.nan)
        self._last = seen
        return seen

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; its flaws repeat with its seed."""
        observation, info = self.env.reset(seed=0 if self._ignores_seed else seed, options=options)
        self._random = np.random.default_rng(seed)
        return self._observe(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, or only seem to."""
        self._steps += 1
        if self._random.random() < self._repeats:
            return self._last, 0.0, False, False, {}
        observation, reward, terminated, truncated, info = self.env.step(action)
        reward = float(reward) * self._reward_scale if self._reward is None else self._reward
        return self._observe(observation), reward, terminated, truncated, info


def _make(task: str) -> Any:
    def make(render_mode: str | None = None, **flaws: Any) -> gymnasium.Env:
        healthy = gymnasium.make(task, render_mode=render_mode, disable_env_checker=True)
        return Flawed(healthy.unwrapped, **flaws)

    return make


for _task in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"):
    gymnasium.register(
        f"Sick{_task.partition('-')[0]}-v0",
        entry_point=_make(_task),
        max_episode_steps=gymnasium.spec(_task).max_episode_steps,
    )
