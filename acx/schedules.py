"""Hyperparameters that change during training, each counting what its name says."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from acx.config import NonNegative, Positive, PositiveInt, configurable

Unit = Literal["optimizer_steps", "iterations", "env_steps"]


@dataclass(frozen=True)
class Progress:
    """How far training is. `optimizer_steps` may be an array: one entry a coming gradient step."""

    env_steps: int = 0
    iterations: int = 0
    optimizer_steps: int | np.ndarray = 0


class Schedule(ABC):
    """A value as a function of progress, counted in `unit`."""

    unit: Unit

    @abstractmethod
    def value(self, steps: np.ndarray) -> np.ndarray:
        """The value after `steps` units, elementwise."""


def value_at(value: float | Schedule, progress: Progress) -> np.ndarray:
    """A number or schedule at `progress`, as float64 of the shape of the counted unit."""
    if isinstance(value, Schedule):
        return value.value(np.asarray(getattr(progress, value.unit), np.float64))
    return np.full(np.shape(progress.optimizer_steps), value, np.float64)


@configurable
class ExponentialDecay(Schedule):
    """initial_value · decay_rate^(steps / decay_steps), Keras' formula.

    Args:
      initial_value: the value at step 0.
      decay_rate: the factor applied every `decay_steps`; above 1 the value grows (warned of).
      decay_steps: the length of one decay, counted in `unit`.
      unit: 'optimizer_steps' (each minibatch's gradient step: Keras' own meaning), 'iterations'
        (one rollout and its update) or 'env_steps'.
      staircase: decay in jumps, at whole multiples of `decay_steps`.
    """

    def __init__(
        self,
        initial_value: Positive,
        decay_rate: Positive,
        decay_steps: PositiveInt,
        unit: Unit,
        staircase: bool = False,
    ) -> None:
        if decay_rate > 1:
            warnings.warn(
                f"ExponentialDecay.decay_rate = {decay_rate}: the value grows", stacklevel=2
            )
        self.initial_value = float(initial_value)
        self.decay_rate = float(decay_rate)
        self.decay_steps = decay_steps
        self.unit = unit
        self.staircase = staircase

    def value(self, steps: np.ndarray) -> np.ndarray:
        """See the class."""
        exponent = steps / self.decay_steps
        return self.initial_value * self.decay_rate ** (
            np.floor(exponent) if self.staircase else exponent
        )


@configurable
class LinearDecay(Schedule):
    """A straight line from initial_value to final_value over `decay_steps`, then constant.

    Args:
      initial_value: the value at step 0.
      final_value: the value from `decay_steps` on.
      decay_steps: the length of the line, counted in `unit`.
      unit: 'optimizer_steps', 'iterations' or 'env_steps'.
    """

    def __init__(
        self,
        initial_value: Positive,
        decay_steps: PositiveInt,
        unit: Unit,
        final_value: NonNegative = 0.0,
    ) -> None:
        self.initial_value = float(initial_value)
        self.final_value = float(final_value)
        self.decay_steps = decay_steps
        self.unit = unit

    def value(self, steps: np.ndarray) -> np.ndarray:
        """See the class."""
        fraction = np.minimum(steps / self.decay_steps, 1.0)
        return self.initial_value + fraction * (self.final_value - self.initial_value)
