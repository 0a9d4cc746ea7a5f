"""Policy heads: from features to raw outputs, and what those outputs mean as a distribution.

A head's layers apply no activation: they return logits, or mean and log standard deviation. The
action that is stored and scored is the *raw* one (an index, or the Gaussian sample before any
squashing or clipping); `environment_action` turns it into what `env.step` receives. The methods on
tensors serve training; their counterparts on NumPy arrays serve acting, where a TensorFlow call
per step would cost more than the environment.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from acx.advantages import require_same_shape
from acx.config import Finite, Positive, configurable
from acx.errors import ConfigError
from acx.exploration import GSDE
from acx.networks import orthogonal

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def categorical_log_prob(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """log softmax(logits)[a]: logits [B, K], actions [B] of indices -> [B]."""
    chosen = tf.one_hot(tf.cast(actions, tf.int32), logits.shape[-1], dtype=logits.dtype)
    return tf.reduce_sum(chosen * tf.nn.log_softmax(logits), axis=-1)


def categorical_entropy(logits: tf.Tensor) -> tf.Tensor:
    """−Σ p log p: [B, K] -> [B]."""
    log_probs = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)


def gaussian_log_prob(mean: tf.Tensor, log_std: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Log density of independent Gaussians, summed over dimensions: [B, A] each -> [B]."""
    require_same_shape(mean=mean, log_std=log_std, actions=actions)
    z = (actions - mean) * tf.exp(-log_std)
    return tf.reduce_sum(-0.5 * tf.square(z) - log_std - HALF_LOG_TWO_PI, axis=-1)


def gaussian_entropy(log_std: tf.Tensor) -> tf.Tensor:
    """Σ (log σ + ½ log 2πe): [B, A] -> [B]."""
    return tf.reduce_sum(log_std + 0.5 + HALF_LOG_TWO_PI, axis=-1)


def tanh_log_derivative(u: tf.Tensor) -> tf.Tensor:
    """log(1 − tanh²u) = 2·(log 2 − u − softplus(−2u)), finite for every u, elementwise.

    The direct form loses all digits from |u| = 9 on (Haarnoja et al. 2018, appendix C, needs it).
    """
    return 2.0 * (math.log(2.0) - u - tf.nn.softplus(-2.0 * u))


def unsquash(squashed: np.ndarray, bound: float = 1.0 - 1e-6) -> np.ndarray:
    """atanh, with the argument kept within ±bound: for actions whose raw sample is lost."""
    return np.arctanh(np.clip(np.asarray(squashed, np.float64), -bound, bound))


class PolicyHead(ABC):
    """A family of distributions over actions; `build` fits it to an action space."""

    action_shape: tuple[int, ...]  # of a raw action, () for an index

    @abstractmethod
    def build(self, space: gymnasium.Space[Any]) -> None:
        """Fit the head to an action space.

        Raises:
          ConfigError: the head can't serve that space.
        """

    @abstractmethod
    def layers(self, rng: np.random.Generator) -> list[keras.layers.Layer]:
        """New layers: features [B, F] to raw outputs [B, K]."""

    @abstractmethod
    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Log-probability (density) of raw actions [B, ...]: [B]."""

    @abstractmethod
    def entropy(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Entropy [B] or an unbiased estimate with the right gradient; `seed` is int32 [2]."""

    @abstractmethod
    def noise(self, rng: np.random.Generator, rows: Sequence[int]) -> np.ndarray:
        """Noise for `sample`, float32 [*rows, ...], drawn for a whole rollout at once."""

    @abstractmethod
    def sample(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Raw actions from raw outputs [B, K] and this step's noise."""

    @abstractmethod
    def mode(self, outputs: np.ndarray) -> np.ndarray:
        """The deterministic raw actions."""

    @abstractmethod
    def environment_action(self, actions: np.ndarray) -> np.ndarray:
        """What the environment receives for raw actions [B, ...]."""

    def statistics(self, outputs: tf.Tensor, actions: tf.Tensor) -> dict[str, tf.Tensor]:
        """Scalars worth watching, of one batch and its raw actions."""
        return {}


@configurable
class CategoricalHead(PolicyHead):
    """A categorical distribution over a Discrete space, from raw logits.

    Args:
      gain: of the output layer's orthogonal initialization; small, so that the first policy is
        near uniform (Andrychowicz et al. 2021, section 3.2).
    """

    action_shape = ()

    def __init__(self, gain: Positive = 0.01) -> None:
        self.gain = gain

    def build(self, space: gymnasium.Space[Any]) -> None:
        """Accept a Discrete space."""
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise _wrong_space("CategoricalHead", "Discrete", space)
        self.choices = int(space.n)
        self.start = int(space.start)

    def layers(self, rng: np.random.Generator) -> list[keras.layers.Layer]:
        """One dense layer to the logits."""
        return [keras.layers.Dense(self.choices, kernel_initializer=orthogonal(self.gain, rng))]

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """See `categorical_log_prob`; actions are indices from 0, whatever the space's start."""
        return categorical_log_prob(outputs, actions)

    def entropy(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """See `categorical_entropy`."""
        return categorical_entropy(outputs)

    def noise(self, rng: np.random.Generator, rows: Sequence[int]) -> np.ndarray:
        """Gumbel noise [*rows, K] = −log E with E exponential."""
        exponential = rng.standard_exponential((*rows, self.choices), dtype=np.float32)
        return -np.log(np.maximum(exponential, np.finfo(np.float32).tiny))

    def sample(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """argmax(logits + Gumbel noise) is distributed as softmax(logits) (Gumbel 1954)."""
        return (outputs + noise).argmax(axis=-1)

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        """The most probable index."""
        return outputs.argmax(axis=-1)

    def environment_action(self, actions: np.ndarray) -> np.ndarray:
        """The space's own numbering."""
        return actions + self.start if self.start else actions


class AppendLogStd(keras.layers.Layer):
    """[B, A] means to [B, 2A]: means, then a trainable log standard deviation of the state's."""

    def __init__(self, initial_log_std: float, **keras_options: Any) -> None:
        super().__init__(**keras_options)
        self.initial_log_std = initial_log_std

    def build(self, input_shape: Sequence[int]) -> None:
        """Create the weight `log_std` [A]."""
        self.log_std = self.add_weight(
            name="log_std",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.initial_log_std),
        )

    def call(self, mean: tf.Tensor) -> tf.Tensor:
        """Concatenate."""
        log_std = tf.broadcast_to(tf.convert_to_tensor(self.log_std), tf.shape(mean))
        return tf.concat([mean, log_std], axis=-1)


class _DiagonalGaussianHead(PolicyHead):
    """Independent Gaussians over the raw actions [B, A] of a Box space."""

    def __init__(
        self,
        std: Literal["state_independent", "state_dependent"] | GSDE,
        initial_log_std: float,
        log_std_range: Sequence[float],
        gain: float,
    ) -> None:
        if len(log_std_range) != 2 or not log_std_range[0] < log_std_range[1]:
            raise ConfigError(
                f"log_std_range = {log_std_range!r}: must be (low, high), natural logarithms",
                parameter="log_std_range",
            )
        self.std = std
        self.initial_log_std = float(initial_log_std)
        self.log_std_range = (float(log_std_range[0]), float(log_std_range[1]))
        self.gain = gain

    def build(self, space: gymnasium.Space[Any]) -> None:
        """Accept a Box of floats."""
        if not isinstance(space, gymnasium.spaces.Box):
            raise _wrong_space(type(self).__name__, "Box", space)
        self.space = space
        self.action_shape = (math.prod(space.shape),)
        self.low = space.low.reshape(-1).astype(np.float32)
        self.high = space.high.reshape(-1).astype(np.float32)

    def layers(self, rng: np.random.Generator) -> list[keras.layers.Layer]:
        """A dense layer to the means, and what the standard deviations follow from beside them."""
        size, kernel = self.action_shape[0], orthogonal(self.gain, rng)
        if isinstance(self.std, GSDE):
            return [self.std.layer(size, kernel, self.initial_log_std)]
        if self.std == "state_independent":
            return [
                keras.layers.Dense(size, kernel_initializer=kernel),
                AppendLogStd(self.initial_log_std),
            ]
        bias = np.repeat(np.array([0.0, self.initial_log_std], np.float32), size)
        initializer = keras.initializers.get(lambda shape, dtype=None: tf.constant(bias))
        return [
            keras.layers.Dense(2 * size, kernel_initializer=kernel, bias_initializer=initializer)
        ]

    def _split(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = self.action_shape[0]
        if isinstance(self.std, GSDE):
            terms = outputs[:, size:]
            return outputs[:, :size], self.std.log_std(terms, size, *self.log_std_range)
        mean, log_std = tf.split(outputs, 2, axis=-1)
        return mean, tf.clip_by_value(log_std, *self.log_std_range)

    def noise(self, rng: np.random.Generator, rows: Sequence[int]) -> np.ndarray:
        """Standard normal [*rows, A], or what `GSDE.draw` draws."""
        if isinstance(self.std, GSDE):
            return self.std.draw(rng, rows)
        return rng.standard_normal((*rows, *self.action_shape), dtype=np.float32)

    def sample(self, outputs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """mean + σ·noise."""
        size = self.action_shape[0]
        low, high = self.log_std_range
        if isinstance(self.std, GSDE):
            return outputs[:, :size] + self.std.explore(outputs[:, size:], noise, low, high)
        std = np.exp(np.minimum(np.maximum(outputs[:, size:], low), high))
        return outputs[:, :size] + std * noise

    def mode(self, outputs: np.ndarray) -> np.ndarray:
        """The mean."""
        return outputs[:, : self.action_shape[0]]

    def at_bounds(self, actions: tf.Tensor) -> tf.Tensor:
        """Which components of raw actions [B, A] reach the environment at a bound."""
        return (actions <= self.low) | (actions >= self.high)

    def statistics(self, outputs: tf.Tensor, actions: tf.Tensor) -> dict[str, tf.Tensor]:
        """The raw actions' mean standard deviation; the shares of actions and means at a bound."""
        mean, log_std = self._split(outputs)
        return {
            "std": tf.reduce_mean(tf.exp(log_std)),
            "actions_at_bounds": tf.reduce_mean(tf.cast(self.at_bounds(actions), tf.float32)),
            "means_at_bounds": tf.reduce_mean(tf.cast(self.at_bounds(mean), tf.float32)),
        }


@configurable
class GaussianHead(_DiagonalGaussianHead):
    """A Gaussian whose samples are clipped to the action bounds at the environment's edge only.

    The raw sample is what is stored and scored, so clipping doesn't bias the policy's ratio.

    Args:
      std: a trained vector ('state_independent'), an output of the network ('state_dependent'), or
        `@GSDE()`: noise that is a function of the state and stays the same for some steps.
      initial_log_std: natural logarithm of the initial standard deviation.
      log_std_range: (low, high) that the log standard deviation is kept in.
      gain: of the output layer's orthogonal initialization.
    """

    def __init__(
        self,
        std: Literal["state_independent", "state_dependent"] | GSDE = "state_independent",
        initial_log_std: Finite = 0.0,
        log_std_range: Sequence[Finite] = (-20.0, 2.0),
        gain: Positive = 0.01,
    ) -> None:
        super().__init__(std, initial_log_std, log_std_range, gain)

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """See `gaussian_log_prob`."""
        return gaussian_log_prob(*self._split(outputs), actions)

    def entropy(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """See `gaussian_entropy`."""
        return gaussian_entropy(self._split(outputs)[1])

    def environment_action(self, actions: np.ndarray) -> np.ndarray:
        """Clip to the bounds; an infinite bound doesn't clip."""
        clipped = np.minimum(np.maximum(actions, self.low), self.high)
        return clipped.reshape(-1, *self.space.shape).astype(self.space.dtype, copy=False)


@configurable
class GaussianTanhHead(_DiagonalGaussianHead):
    """A Gaussian squashed by tanh and mapped affinely onto the action bounds.

    With a = low + (tanh(u) + 1)/2·(high − low) and u the Gaussian's sample, which is stored:
    log π(a) = log N(u) − Σ [log(1 − tanh²u) + log((high − low)/2)]   (Haarnoja et al. 2018, eq. 21,
    with the change of scale).

    Args: as for `GaussianHead`.
    """

    def __init__(
        self,
        std: Literal["state_independent", "state_dependent"] | GSDE = "state_independent",
        initial_log_std: Finite = 0.0,
        log_std_range: Sequence[Finite] = (-5.0, 2.0),
        gain: Positive = 0.01,
    ) -> None:
        super().__init__(std, initial_log_std, log_std_range, gain)

    def build(self, space: gymnasium.Space[Any]) -> None:
        """Accept a Box of floats with finite bounds of positive width."""
        super().build(space)
        width = self.high.astype(np.float64) - self.low
        for i in np.flatnonzero(~np.isfinite(width) | (width <= 0)):
            raise ConfigError(
                f"GaussianTanhHead maps onto the action bounds, but dimension {i} of the action "
                f"space is [{self.low[i]}, {self.high[i]}]: use GaussianHead, or rescale the "
                "actions with a wrapper",
                "Agent",
                "policy_head",
            )
        self.half_width = (width / 2).astype(np.float32)
        self.log_half_width = float(np.sum(np.log(width / 2)))

    def log_prob(self, outputs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Log density [B] of the environment's actions, given their raw samples u [B, A]."""
        gaussian = gaussian_log_prob(*self._split(outputs), actions)
        correction = tf.reduce_sum(tanh_log_derivative(actions), axis=-1)
        return gaussian - correction - self.log_half_width

    def entropy(self, outputs: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """H(u) + E[log |da/du|], the expectation from one reparameterized sample.

        There is no closed form; the Gaussian's own entropy grows where this one falls.
        """
        mean, log_std = self._split(outputs)
        noise = tf.random.stateless_normal(tf.shape(mean), seed)
        u = mean + tf.exp(log_std) * noise
        log_derivative = tf.reduce_sum(tanh_log_derivative(u), axis=-1)
        return gaussian_entropy(log_std) + log_derivative + self.log_half_width

    def at_bounds(self, actions: tf.Tensor) -> tf.Tensor:
        """Which components are within 1 % of the range of a bound: |tanh u| > 0.98."""
        return tf.abs(tf.tanh(actions)) > 0.98

    def environment_action(self, actions: np.ndarray) -> np.ndarray:
        """low + (tanh(u) + 1)/2·(high − low), kept inside against rounding."""
        scaled = self.low + (np.tanh(actions) + np.float32(1.0)) * self.half_width
        bounded = np.minimum(np.maximum(scaled, self.low), self.high)
        return bounded.reshape(-1, *self.space.shape).astype(self.space.dtype, copy=False)


def _wrong_space(head: str, wanted: str, space: gymnasium.Space[Any]) -> ConfigError:
    suits = {
        gymnasium.spaces.Discrete: "CategoricalHead",
        gymnasium.spaces.Box: "GaussianTanhHead or GaussianHead",
    }
    advice = next(
        (f"use {name}" for kind, name in suits.items() if isinstance(space, kind)),
        "acx has no head for that space",
    )
    return ConfigError(
        f"{head} serves {wanted} action spaces, not {space}: {advice}", "Agent", "policy_head"
    )
