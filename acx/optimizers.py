"""Optimizers by Keras, their learning-rate schedules, and gradient clipping per head."""

import math
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from acx.config import NonNegative, Positive, configurable
from acx.errors import ConfigError
from acx.schedules import Progress, Schedule, value_at


@configurable
class OptimizerFactory:
    """Makes a Keras optimizer and says which learning rate each of its steps takes.

    Args:
      algorithm: 'adam', 'rmsprop' or 'sgd'.
      learning_rate: a number, or a schedule such as `@ExponentialDecay()`.
      epsilon: added to the denominator by Adam and RMSprop. PPO's usual 1e-5 damps the first
        steps more than Keras' 1e-7 (Engstrom et al. 2020).
      rho: RMSprop's decay of the squared gradient.
      momentum: of SGD.
    """

    def __init__(
        self,
        algorithm: Literal["adam", "rmsprop", "sgd"] = "adam",
        learning_rate: Positive | Schedule = 3e-4,
        epsilon: Positive = 1e-5,
        rho: Positive = 0.99,
        momentum: NonNegative = 0.0,
    ) -> None:
        self.algorithm = algorithm
        self.learning_rate = learning_rate
        self.epsilon = epsilon
        self.rho = rho
        self.momentum = momentum

    def make(self) -> keras.optimizers.Optimizer:
        """A new optimizer; its own learning rate is set step by step by the caller."""
        if self.algorithm == "adam":
            return keras.optimizers.Adam(epsilon=self.epsilon)
        if self.algorithm == "rmsprop":
            return keras.optimizers.RMSprop(rho=self.rho, epsilon=self.epsilon)
        return keras.optimizers.SGD(momentum=self.momentum)

    def learning_rates(self, optimizer_steps: int, count: int, progress: Progress) -> np.ndarray:
        """Learning rates of the next `count` steps after `optimizer_steps`: float32 [count]."""
        if not isinstance(self.learning_rate, Schedule):
            return np.full(count, self.learning_rate, np.float32)
        steps = optimizer_steps + np.arange(count)
        coming = Progress(progress.env_steps, progress.iterations, steps)
        rates = value_at(self.learning_rate, coming)
        return np.broadcast_to(rates, (count,)).astype(np.float32)


@configurable
class ClippedOptimizer:
    """Clips the global norm of one head's gradient, then takes an optimizer step.

    Args:
      optimizer: makes the Keras optimizer.
      clip_norm: the largest gradient norm; None (or infinity) is off.
    """

    def __init__(self, optimizer: OptimizerFactory, clip_norm: float | None = 0.5) -> None:
        if clip_norm is not None and not clip_norm > 0:
            raise ConfigError(
                f"ClippedOptimizer.clip_norm = {clip_norm!r}: must be above 0; None is off",
                parameter="clip_norm",
            )
        self.factory = optimizer
        self.clip_norm = math.inf if clip_norm is None else float(clip_norm)

    def build(self, parameters: np.ndarray) -> keras.Variable:
        """Create the optimizer for a flat vector; returns the variable that it steps."""
        self.variable = keras.Variable(parameters, name="parameters")
        self.optimizer = self.factory.make()
        self.optimizer.build([self.variable])
        return self.variable

    def take_over(self, previous: "ClippedOptimizer") -> keras.Variable:
        """Go on with the variables of one of the same algorithm, set to this one's values.

        Compiled programs that step those variables then serve this optimizer.
        """
        for theirs, mine in zip(previous.state, self.state, strict=True):
            theirs.assign(mine)
        self.variable, self.optimizer = previous.variable, previous.optimizer
        return self.variable

    @property
    def state(self) -> list[keras.Variable]:
        """Everything that a step changes: the parameters, then the optimizer's own variables."""
        return [self.variable, *self.optimizer.variables]

    def apply(
        self, gradient: tf.Tensor, learning_rate: tf.Tensor, clip_norm: tf.Tensor
    ) -> tf.Tensor:
        """Clip the gradient, take one step; returns the gradient's norm before the clip."""
        norm = tf.sqrt(tf.reduce_sum(tf.square(gradient)))
        gradient *= tf.where(norm > clip_norm, clip_norm / norm, 1.0)
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply([gradient], [self.variable])
        return norm
