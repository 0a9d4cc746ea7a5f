"""The critic's head."""

import keras
import numpy as np

from acx.config import Positive, configurable
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
