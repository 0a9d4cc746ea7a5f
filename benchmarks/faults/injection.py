"""Components that put NaN or infinity where a case wants it."""

from typing import Any, Literal

import gymnasium
import numpy as np
import tensorflow as tf

from acx.config import configurable
from acx.objectives import ClippedSurrogate, CriticLoss
from acx.schedules import Progress

Place = Literal["loss", "gradient"]


class Poisoned(gymnasium.Env):
    """Noise of Box or Discrete kind, with one value that is not finite.

    Args:
      quantity: 'observation' or 'reward'; '' is healthy.
      value: what it is instead, as text.
      episode_seed: of the episode that is poisoned.
      at: its step, from 1; 0 is the reset.
      length: of every episode.
    """

    def __init__(
        self,
        quantity: str = "",
        value: str = "0",
        episode_seed: int = -1,
        at: int = 0,
        length: int = 7,
    ) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._quantity, self._value, self._at, self._length = quantity, float(value), at, length
        self._episode_seed = episode_seed

    def _observe(self) -> np.ndarray:
        observation = self.np_random.standard_normal(3).astype(np.float32)
        if self._poisoned("observation"):
            observation[1] = self._value
        return observation

    def _poisoned(self, quantity: str) -> bool:
        return self._faulty and quantity == self._quantity and self._steps == self._at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        self._steps, self._faulty = 0, seed == self._episode_seed
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        """Take a step."""
        self._steps += 1
        reward = self._value if self._poisoned("reward") else float(action)
        return self._observe(), reward, False, self._steps >= self._length, {}


gymnasium.register("Poisoned-v0", entry_point=f"{__name__}:Poisoned", order_enforce=False)


def _poisoned(loss: tf.Tensor, hyperparameters: dict[str, tf.Tensor]) -> tf.Tensor:
    """Add NaN or infinity, or a term of finite value whose gradient is NaN: d√u at u = 0."""
    healthy = 1.0 - hyperparameters["in_gradient"]
    root = tf.sqrt(healthy * (tf.square(loss) + 1.0))
    return loss + hyperparameters["in_loss"] + 1e-6 * root


class _Poison:
    """When and where a loss is poisoned: in iterations that begin at env. steps [first, last]."""

    def __init__(self, place: Place, value: str, first: int, last: int) -> None:
        self.place, self.value, self.first, self.last = place, float(value), first, last

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        due = self.first <= progress.env_steps <= self.last
        return {
            "in_loss": self.value if due and self.place == "loss" else 0.0,
            "in_gradient": float(due and self.place == "gradient"),
        }


@configurable
class PoisonedSurrogate(ClippedSurrogate):
    """PPO's loss, poisoned for a while.

    Args:
      place: 'loss' or 'gradient'.
      value: NaN or infinity, as text.
      first: environment steps at the start of the first poisoned iteration.
      last: the same of the last one; before `first` poisons nothing.
    """

    def __init__(
        self, place: Place = "loss", value: str = "nan", first: int = 0, last: int = -1
    ) -> None:
        super().__init__()
        self.poison = _Poison(place, value, first, last)

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """The poison beside ε."""
        return {**super().hyperparameters(progress), **self.poison.hyperparameters(progress)}

    def loss(self, *arguments: tf.Tensor, **hyperparameters: tf.Tensor) -> Any:
        """PPO's, and the poison."""
        loss, metrics = super().loss(*arguments, **hyperparameters)
        return _poisoned(loss, hyperparameters), metrics


@configurable
class PoisonedCriticLoss(CriticLoss):
    """The critic's loss, poisoned for a while; arguments as for `PoisonedSurrogate`."""

    def __init__(
        self, place: Place = "loss", value: str = "nan", first: int = 0, last: int = -1
    ) -> None:
        super().__init__()
        self.poison = _Poison(place, value, first, last)

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """The poison."""
        return self.poison.hyperparameters(progress)

    def loss(self, *arguments: tf.Tensor, **hyperparameters: tf.Tensor) -> tf.Tensor:
        """The mean squared error, and the poison."""
        return _poisoned(super().loss(*arguments, **hyperparameters), hyperparameters)
