"""Advantage estimation on time-major rollouts.

The functions are pure: arrays in, arrays out, no gradient flows through their results. All arrays
are float32 of shape [T, N] (T steps of N environments) and share these names:

  rewards      r_t, the reward of the step taken in s_t
  values       V(s_t)
  next_values  V(s'_t), the value of the observation that the step led to; for the last step of an
               episode this is the episode's final observation, never the next episode's first
  terminated   1 where s'_t is terminal: nothing is bootstrapped
  truncated    1 where a limit cut the episode: V(s'_t) is bootstrapped
  valid        0 for rows that are not data (a reset that a vector environment inserted)
"""

from abc import ABC, abstractmethod

import tensorflow as tf

from acx.config import PositiveInt, Probability, configurable


def require_same_shape(**tensors: tf.Tensor) -> None:
    """Refuse tensors whose static shapes differ, before they can broadcast.

    Raises:
      ValueError: the shapes differ; the message names each tensor with its shape.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must be equal: {listed}")


def _next_rows(array: tf.Tensor, rows: int) -> tf.Tensor:
    """array[t + rows], with zeros past the end."""
    return tf.concat([array[rows:], tf.zeros_like(array[:rows])], axis=0)


def reverse_scan(deltas: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """Solve x_t = deltas_t + decays_t · x_{t+1} with x_T = 0, along axis 0.

    The maps x -> deltas + decays·x compose associatively, so log2(T) rounds of doubling give every
    suffix (Hillis & Steele, 1986) instead of a loop of T dependent steps.
    """
    require_same_shape(deltas=deltas, decays=decays)
    rows = 1
    while rows < deltas.shape[0]:
        deltas += decays * _next_rows(deltas, rows)
        decays *= _next_rows(decays, rows)
        rows *= 2
    return deltas


def td_errors(
    rewards: tf.Tensor,
    values: tf.Tensor,
    next_values: tf.Tensor,
    terminated: tf.Tensor,
    gamma: tf.Tensor,
) -> tf.Tensor:
    """δ_t = r_t + γ·(1 − terminated_t)·V(s'_t) − V(s_t)   (Sutton & Barto 2018, eq. 6.5)."""
    require_same_shape(
        rewards=rewards, values=values, next_values=next_values, terminated=terminated
    )
    return rewards + gamma * (1.0 - terminated) * next_values - values


def gae_advantages(
    rewards: tf.Tensor,
    values: tf.Tensor,
    next_values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: tf.Tensor,
    gae_lambda: tf.Tensor,
) -> tf.Tensor:
    """A_t = δ_t + γλ·(1 − done_t)·A_{t+1}   (Schulman et al. 2016, eq. 16).

    Either end of an episode cuts the recursion; only termination stops the bootstrap.
    """
    require_same_shape(rewards=rewards, truncated=truncated)
    deltas = td_errors(rewards, values, next_values, terminated, gamma)
    done = tf.maximum(terminated, truncated)
    return reverse_scan(deltas, gamma * gae_lambda * (1.0 - done))


def td_advantages(
    rewards: tf.Tensor,
    values: tf.Tensor,
    next_values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: tf.Tensor,
    n_steps: int,
) -> tf.Tensor:
    """G_{t:t+n} − V(s_t), the n-step return less the value   (Sutton & Barto 2018, eq. 7.1).

    The return stops at the end of its episode and bootstraps at the end of the rollout, so fewer
    than n rewards may enter. `n_steps` is static: it is the number of times the return is unrolled.
    """
    require_same_shape(rewards=rewards, truncated=truncated)
    one_step = td_errors(rewards, values, next_values, terminated, gamma) + values
    last_row = tf.concat([tf.zeros_like(rewards[:-1]), tf.ones_like(rewards[:1])], axis=0)
    ends = tf.maximum(tf.maximum(terminated, truncated), last_row)
    returns = one_step
    for _ in range(min(n_steps, rewards.shape[0]) - 1):
        returns = tf.where(ends > 0, one_step, rewards + gamma * _next_rows(returns, 1))
    return returns - values


def normalize(advantages: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Shift and scale to mean 0 and standard deviation 1 over the valid entries.

    Equal advantages (zero variance) become zeros, not NaN.
    """
    require_same_shape(advantages=advantages, valid=valid)
    count = tf.maximum(tf.reduce_sum(valid), 1.0)
    mean = tf.reduce_sum(advantages * valid) / count
    centered = (advantages - mean) * valid
    # The mean of equal float32 numbers is off by rounding: center once more, and let no deviation
    # within the mean's last digit count as variance.
    centered = (centered - tf.reduce_sum(centered) / count) * valid
    std = tf.sqrt(tf.reduce_sum(tf.square(centered)) / count)
    return centered / (std + 1e-8 + 1e-7 * tf.abs(mean))


class Advantage(ABC):
    """An estimator with its settings; `gamma` and the like enter compiled code as inputs."""

    gamma: float

    @abstractmethod
    def hyperparameters(self) -> dict[str, float]:
        """The settings that compiled code receives as inputs of `estimate`."""

    @abstractmethod
    def estimate(
        self,
        rewards: tf.Tensor,
        values: tf.Tensor,
        next_values: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tf.Tensor:
        """Advantages [T, N]; the critic's target is advantages + values."""


@configurable
class GAE(Advantage):
    """Generalized advantage estimation (Schulman et al. 2016).

    Args:
      gamma: discount of the next step's value, in [0, 1].
      gae_lambda: 0 gives the one-step TD error, 1 the Monte-Carlo return less the value.
    """

    def __init__(self, gamma: Probability = 0.99, gae_lambda: Probability = 0.95) -> None:
        self.gamma = gamma
        self.gae_lambda = gae_lambda

    def hyperparameters(self) -> dict[str, float]:
        """γ and λ."""
        return {"gamma": self.gamma, "gae_lambda": self.gae_lambda}

    def estimate(
        self,
        rewards: tf.Tensor,
        values: tf.Tensor,
        next_values: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tf.Tensor:
        """See `gae_advantages`."""
        return gae_advantages(
            rewards, values, next_values, terminated, truncated, **hyperparameters
        )


@configurable
class TD(Advantage):
    """The n-step temporal-difference error (Sutton & Barto 2018, section 7.1).

    Args:
      gamma: discount of the next step's value, in [0, 1].
      n_steps: rewards that enter before the bootstrap; 1 is one-step TD.
    """

    def __init__(self, gamma: Probability = 0.99, n_steps: PositiveInt = 1) -> None:
        self.gamma = gamma
        self.n_steps = n_steps

    def hyperparameters(self) -> dict[str, float]:
        """γ; the number of steps is part of the compiled program."""
        return {"gamma": self.gamma}

    def estimate(
        self,
        rewards: tf.Tensor,
        values: tf.Tensor,
        next_values: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        **hyperparameters: tf.Tensor,
    ) -> tf.Tensor:
        """See `td_advantages`."""
        return td_advantages(
            rewards,
            values,
            next_values,
            terminated,
            truncated,
            n_steps=self.n_steps,
            **hyperparameters,
        )
