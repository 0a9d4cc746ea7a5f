"""The critic's head, and the scale of what it learns."""

import keras
import numpy as np

from acx.config import Positive, Probability, configurable
from acx.errors import ConfigError
from acx.networks import orthogonal


@configurable
class CriticHead:
    """A state-value head: [B, F] features to values [B].

    Args:
      gain: of the orthogonal initialization.
    """

    def __init__(self, gain: Positive = 1.0) -> None:
        self.gain = gain

    def layers(self, rng: np.random.Generator) -> list[keras.layers.Layer]:
        """New layers; the last one drops the unit axis, so no [B, 1] meets a [B]."""
        return [
            keras.layers.Dense(1, kernel_initializer=orthogonal(self.gain, rng)),
            keras.layers.Reshape(()),
        ]


@configurable
class ValueNormalizer:
    """Has the critic learn returns of mean 0 and variance 1: V(s) = mean + std · critic(s).

    Mean and variance are exponential averages over rollouts, divided by the weight they have had so
    far (Yu et al. 2022). The critic's last layer is not rescaled when they change, which van
    Hasselt et al. 2016 do (PopArt): values move with the statistics.

    Args:
      decay: weight of the past, a rollout.
      epsilon: least variance.
    """

    def __init__(self, decay: Probability = 0.9, epsilon: Positive = 1e-4) -> None:
        if decay == 1.0:
            raise ConfigError(
                "ValueNormalizer.decay = 1.0 never learns a scale: give less",
                "ValueNormalizer",
                "decay",
            )
        self.decay = decay
        self.epsilon = epsilon
        self._sums = np.zeros(3, np.float64)  # weight, Σ returns, Σ squared returns

    def update(self, mean: float, std: float) -> None:
        """Merge the moments of a rollout's returns."""
        new = np.array([1.0, mean, mean**2 + std**2])
        self._sums = self.decay * self._sums + (1.0 - self.decay) * new

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the returns; 0 and 1 before any were seen."""
        weight, total, squares = self._sums.tolist()
        if not weight:
            return 0.0, 1.0
        mean = total / weight
        return mean, max(squares / weight - mean**2, self.epsilon) ** 0.5

    def state(self) -> dict[str, np.ndarray]:
        """The statistics as arrays."""
        return {"sums": self._sums}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`."""
        self._sums = np.array(state["sums"], np.float64)
