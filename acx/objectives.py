"""What the actor and the critic minimize.

Pure functions of [B] tensors, and the classes that hold their settings. `weight` is 1 for rows
that count and 0 for rows that are not data; every mean is over the rows that count.
"""

from abc import ABC, abstractmethod

import keras
import tensorflow as tf

from acx.advantages import require_same_shape
from acx.config import Positive, configurable
from acx.schedules import Progress, Schedule, value_at

Metrics = dict[str, tf.Tensor]


def weighted_mean(values: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Σ w·x / Σ w, and 0 where nothing counts."""
    require_same_shape(values=values, weight=weight)
    return tf.reduce_sum(values * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)


def policy_gradient_loss(log_prob: tf.Tensor, advantage: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """−E[log π(a|s)·A]   (Sutton & Barto 2018, section 13.5). The advantage is a constant."""
    require_same_shape(log_prob=log_prob, advantage=advantage, weight=weight)
    return -weighted_mean(log_prob * tf.stop_gradient(advantage), weight)


def clipped_surrogate_loss(
    ratio: tf.Tensor, advantage: tf.Tensor, weight: tf.Tensor, clip_range: tf.Tensor
) -> tf.Tensor:
    """−E[min(ρ·A, clip(ρ, 1−ε, 1+ε)·A)]   (Schulman et al. 2017, eq. 7). A is a constant."""
    require_same_shape(ratio=ratio, advantage=advantage, weight=weight)
    advantage = tf.stop_gradient(advantage)
    clipped = tf.clip_by_value(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -weighted_mean(tf.minimum(ratio * advantage, clipped * advantage), weight)


def quadratic_surrogate_loss(
    ratio: tf.Tensor, advantage: tf.Tensor, weight: tf.Tensor, clip_range: tf.Tensor
) -> tf.Tensor:
    """−E[ρ·A − |A|/(2ε)·(ρ − 1)²]   (Xie et al. 2024, Simple Policy Optimization). A is constant.

    The best ratio of a row is 1 ± ε, as with the clip, but rows beyond it are pulled back.
    """
    require_same_shape(ratio=ratio, advantage=advantage, weight=weight)
    advantage = tf.stop_gradient(advantage)
    penalty = tf.abs(advantage) / (2.0 * clip_range) * tf.square(ratio - 1.0)
    return -weighted_mean(ratio * advantage - penalty, weight)


def approximate_kl(log_ratio: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """KL(π_old ‖ π) ≈ E[(ρ − 1) − log ρ], never negative (Schulman 2020, "k3")."""
    return weighted_mean(tf.exp(log_ratio) - 1.0 - log_ratio, weight)


def squared_error(values: tf.Tensor, returns: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """E[(V(s) − G)²] by Keras' MeanSquaredError. The returns are constants."""
    require_same_shape(values=values, returns=returns, weight=weight)
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    # Keras averages over the last axis and weights the others.
    return loss(tf.stop_gradient(returns)[:, None], values[:, None], sample_weight=weight)


def clipped_squared_error(
    values: tf.Tensor,
    old_values: tf.Tensor,
    returns: tf.Tensor,
    weight: tf.Tensor,
    clip_range: tf.Tensor,
) -> tf.Tensor:
    """E[max((V − G)², (clip(V, V_old ± ε) − G)²)]: the larger loss, so no step is rewarded for
    leaving the range around the rollout's own value."""
    require_same_shape(values=values, old_values=old_values, returns=returns)
    returns, old_values = tf.stop_gradient(returns), tf.stop_gradient(old_values)
    clipped = old_values + tf.clip_by_value(values - old_values, -clip_range, clip_range)
    worst = tf.maximum(tf.square(values - returns), tf.square(clipped - returns))
    return weighted_mean(worst, weight)


class PolicyObjective(ABC):
    """The actor's loss, before the entropy bonus."""

    target_kl: float | None = None

    @abstractmethod
    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """The settings that compiled code receives as inputs of `loss`."""

    @abstractmethod
    def loss(
        self,
        log_prob: tf.Tensor,
        old_log_prob: tf.Tensor,
        advantage: tf.Tensor,
        weight: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tuple[tf.Tensor, Metrics]:
        """The scalar loss of a minibatch and what to report of it."""


@configurable
class PolicyGradient(PolicyObjective):
    """The advantage actor-critic's policy gradient (A2C, one-step TD actor-critic)."""

    def __init__(self) -> None:
        pass

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """None."""
        return {}

    def loss(
        self,
        log_prob: tf.Tensor,
        old_log_prob: tf.Tensor,
        advantage: tf.Tensor,
        weight: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tuple[tf.Tensor, Metrics]:
        """See `policy_gradient_loss`."""
        log_ratio = log_prob - old_log_prob
        return policy_gradient_loss(log_prob, advantage, weight), {
            "approx_kl": approximate_kl(log_ratio, weight)
        }


@configurable
class ClippedSurrogate(PolicyObjective):
    """PPO's clipped surrogate objective.

    Args:
      clip_range: ε, how far the probability ratio is rewarded for leaving 1; a number or schedule.
      target_kl: stop the actor's epochs once a minibatch's approximate KL is above 1.5 times this.
    """

    surrogate_loss = staticmethod(clipped_surrogate_loss)

    def __init__(
        self, clip_range: Positive | Schedule = 0.2, target_kl: Positive | None = None
    ) -> None:
        self.clip_range = clip_range
        self.target_kl = target_kl

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """ε at this point of training."""
        return {"clip_range": float(value_at(self.clip_range, progress))}

    def loss(
        self,
        log_prob: tf.Tensor,
        old_log_prob: tf.Tensor,
        advantage: tf.Tensor,
        weight: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tuple[tf.Tensor, Metrics]:
        """See `surrogate_loss`."""
        clip_range = hyperparameters["clip_range"]
        log_ratio = log_prob - old_log_prob
        ratio = tf.exp(log_ratio)
        outside = tf.cast(tf.abs(ratio - 1.0) > clip_range, tf.float32)
        return self.surrogate_loss(ratio, advantage, weight, clip_range), {
            "approx_kl": approximate_kl(log_ratio, weight),
            "clip_fraction": weighted_mean(outside, weight),
        }


@configurable
class QuadraticSurrogate(ClippedSurrogate):
    """Simple Policy Optimization's surrogate: a quadratic penalty in place of PPO's clip.

    The clip gives no gradient to rows whose ratio has left 1 ± ε, so that many epochs let it drift
    far; the penalty pulls such rows back (Xie et al. 2024).

    Args: as for `ClippedSurrogate`; ε is where a row's objective is largest.
    """

    surrogate_loss = staticmethod(quadratic_surrogate_loss)

    def __init__(
        self, clip_range: Positive | Schedule = 0.2, target_kl: Positive | None = None
    ) -> None:
        self.clip_range = clip_range
        self.target_kl = target_kl


@configurable
class CriticLoss:
    """Mean squared error to the return, optionally clipped around the rollout's values.

    Args:
      clip_range: PPO's value clipping, in units of what the critic outputs: the scaled
        reward's, or its standard deviations with a value normalizer. None is off.
    """

    def __init__(self, clip_range: Positive | Schedule | None = None) -> None:
        self.clip_range = clip_range

    def hyperparameters(self, progress: Progress) -> dict[str, float]:
        """The value clip range, if there is one."""
        if self.clip_range is None:
            return {}
        return {"clip_range": float(value_at(self.clip_range, progress))}

    def loss(
        self,
        values: tf.Tensor,
        old_values: tf.Tensor,
        returns: tf.Tensor,
        weight: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tf.Tensor:
        """See `squared_error` and `clipped_squared_error`."""
        if "clip_range" in hyperparameters:
            return clipped_squared_error(
                values, old_values, returns, weight, hyperparameters["clip_range"]
            )
        return squared_error(values, returns, weight)
