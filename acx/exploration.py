"""Generalized state-dependent exploration: action noise that is smooth in time.

Independent noise on each step shakes an actuator and averages out over the steps of a slow system.
Here noise is a function of the state that stays the same for some steps: what it tries, it tries
for long enough to matter.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from acx.config import PositiveInt, configurable


class MeanAndExploration(keras.layers.Layer):
    """Features [B, F] to [B, A + F·A]: means, then the exploration terms φ_f·σ_fa, f before a.

    φ carries no gradient into the terms: only σ is trained by how much was explored.
    """

    def __init__(
        self,
        size: int,
        kernel: keras.initializers.Initializer,
        initial_log_std: float,
        **keras_options: Any,
    ) -> None:
        super().__init__(**keras_options)
        self.size = size
        self.initializer = kernel
        self.initial_log_std = initial_log_std

    def build(self, input_shape: Sequence[int]) -> None:
        """Create the weights `kernel` [F, A] and `bias` [A] of the means, and `log_std` [F, A]."""
        self.features = int(input_shape[-1])
        shape = (self.features, self.size)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=self.initializer)
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")
        start = keras.initializers.Constant(self.initial_log_std - 0.5 * math.log(self.features))
        self.log_std = self.add_weight(name="log_std", shape=shape, initializer=start)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Concatenate."""
        kernel, bias, log_std = map(tf.convert_to_tensor, (self.kernel, self.bias, self.log_std))
        terms = tf.stop_gradient(features)[:, :, None] * tf.exp(log_std)
        flat = tf.reshape(terms, (-1, self.features * self.size))
        return tf.concat([tf.matmul(features, kernel) + bias, flat], axis=-1)


@configurable
class GSDE:
    """Generalized state-dependent exploration (Raffin et al. 2022), as the `std` of a head.

    With features φ(s) of the last hidden layer and weights σ, trained, [F, A], an action's noise is
    Σ_f φ_f·σ_fa·ε_fa, where the standard normal ε is drawn for several steps. On each step, noise
    is Gaussian with the variance Σ_f φ_f²·σ_fa² (their equation 6), which is what actions are
    scored with. A head's `initial_log_std` is the noise's where features have a mean square of 1.

    Args:
      resample_every: steps between two draws of ε; the first is at each rollout's start. Each
        environment has an ε of its own.
    """

    def __init__(self, resample_every: PositiveInt = 4) -> None:
        self.resample_every = resample_every

    def layer(
        self, size: int, kernel: keras.initializers.Initializer, initial_log_std: float
    ) -> keras.layers.Layer:
        """A new output layer for `size` action dimensions."""
        self._layer = MeanAndExploration(size, kernel, initial_log_std)
        return self._layer

    def log_std(self, terms: tf.Tensor, size: int, low: float, high: float) -> tf.Tensor:
        """log σ of the noise [B, A], kept within (low, high), from exploration terms [B, F·A]."""
        terms = tf.reshape(terms, (tf.shape(terms)[0], -1, size))
        variance = tf.reduce_sum(tf.square(terms), axis=1)
        return 0.5 * tf.math.log(
            tf.clip_by_value(variance, math.exp(2.0 * low), math.exp(2.0 * high))
        )

    def draw(self, rng: np.random.Generator, rows: Sequence[int]) -> np.ndarray:
        """ε for `explore`, float32 [*rows, F, A], constant along blocks of the first axis."""
        blocks = -(-rows[0] // self.resample_every)
        shape = (blocks, *rows[1:], self._layer.features, self._layer.size)
        drawn = rng.standard_normal(shape, dtype=np.float32)
        return np.repeat(drawn, self.resample_every, axis=0)[: rows[0]]

    def explore(self, terms: np.ndarray, noise: np.ndarray, low: float, high: float) -> np.ndarray:
        """An action's noise [B, A], with its σ kept within (low, high) as `log_std` keeps it."""
        terms = terms.reshape(noise.shape)
        variance = np.einsum("bfa,bfa->ba", terms, terms)
        wanted = np.minimum(np.maximum(variance, math.exp(2.0 * low)), math.exp(2.0 * high))
        tiny = np.finfo(np.float32).tiny
        scale = np.sqrt(wanted / np.maximum(variance, tiny))
        return scale * np.einsum("bfa,bfa->ba", terms, noise)
