"""Running normalization of observations and rewards.

The statistics belong to the agent: they are saved with it, change only when training tells them
to (once an iteration, so that all of a rollout is normalized alike), and are frozen in evaluation.
"""

from collections.abc import Sequence

import numpy as np

from acx.config import Positive, configurable


class RunningMoments:
    """Mean and variance of everything seen, merged batch by batch (Chan et al. 1983, eq. 2.1).

    float64 throughout, from a count of 0 without a pseudo-count, so data far from zero lose no
    precision and the first batch is not diluted.
    """

    def __init__(self, shape: Sequence[int] = ()) -> None:
        self.count = 0.0
        self.mean = np.zeros(shape, np.float64)
        self.squares = np.zeros(shape, np.float64)  # Σ (x − mean)²

    @property
    def variance(self) -> np.ndarray:
        """The population variance; 1 before anything was seen."""
        return self.squares / self.count if self.count else np.ones_like(self.squares)

    def update(self, batch: np.ndarray) -> None:
        """Merge a batch [B, *shape]."""
        size = len(batch)
        if size == 0:
            return
        batch = np.asarray(batch, np.float64)
        mean = batch.mean(axis=0)
        shift = mean - self.mean
        total = self.count + size
        self.squares = (
            self.squares
            + np.square(batch - mean).sum(axis=0)
            + np.square(shift) * (self.count * size / total)
        )
        self.mean = self.mean + shift * (size / total)
        self.count = total

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to go on, as arrays."""
        return {"count": np.asarray(self.count), "mean": self.mean, "squares": self.squares}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`."""
        self.count = float(state["count"])
        self.mean = np.array(state["mean"], np.float64)
        self.squares = np.array(state["squares"], np.float64)


@configurable
class ObservationNormalizer:
    """(observation − mean)/std per component, clipped.

    Args:
      clip: the largest normalized magnitude.
      epsilon: added to the variance.
    """

    def __init__(self, clip: Positive = 10.0, epsilon: Positive = 1e-8) -> None:
        self.clip = clip
        self.epsilon = epsilon

    def build(self, shape: Sequence[int]) -> None:
        """Start empty for observations of `shape`."""
        self.moments = RunningMoments(shape)
        self._refresh()

    def _refresh(self) -> None:
        self._scale = 1.0 / np.sqrt(self.moments.variance + self.epsilon)

    def update(self, observations: np.ndarray) -> None:
        """Merge raw observations [B, *shape] into the statistics."""
        self.moments.update(observations)
        self._refresh()

    def normalize(self, observations: np.ndarray) -> np.ndarray:
        """Normalized observations, float32; never changes the statistics."""
        scaled = (observations - self.moments.mean) * self._scale
        return np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32, copy=False)

    def state(self) -> dict[str, np.ndarray]:
        """The statistics as arrays."""
        return self.moments.state()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`."""
        self.moments.load_state(state)
        self._refresh()


def network_inputs(
    normalizer: ObservationNormalizer | None, observations: np.ndarray
) -> np.ndarray:
    """What the networks see of raw observations: float32, normalized where the agent normalizes."""
    if normalizer is None:
        return np.asarray(observations, np.float32)
    return normalizer.normalize(observations)


@configurable
class RewardNormalizer:
    """Divides rewards by the standard deviation of the discounted return (Engstrom et al. 2020).

    The return is accumulated per environment and starts anew after termination and truncation.

    Args:
      clip: the largest normalized magnitude.
      epsilon: added to the variance.
    """

    def __init__(self, clip: Positive = 10.0, epsilon: Positive = 1e-8) -> None:
        self.clip = clip
        self.epsilon = epsilon
        self.moments = RunningMoments()
        self.returns = np.zeros(0)

    def update(
        self, rewards: np.ndarray, done: np.ndarray, valid: np.ndarray, gamma: float
    ) -> None:
        """Merge a rollout's raw rewards, all arrays [T, N]; `gamma` is the advantage's discount."""
        if len(self.returns) != rewards.shape[1]:
            self.returns = np.zeros(rewards.shape[1])
        history = np.empty(rewards.shape, np.float64)
        for t in range(len(rewards)):
            self.returns = self.returns * gamma + rewards[t] * valid[t]
            history[t] = self.returns
            self.returns = self.returns * (1.0 - done[t])
        self.moments.update(history[valid > 0])

    @property
    def scale(self) -> float:
        """The factor that rewards are multiplied with."""
        return float(1.0 / np.sqrt(self.moments.variance + self.epsilon))

    def normalize(self, rewards: np.ndarray) -> np.ndarray:
        """Scaled rewards; never changes the statistics."""
        return np.clip(rewards * self.scale, -self.clip, self.clip).astype(np.float32)

    def state(self) -> dict[str, np.ndarray]:
        """The statistics as arrays."""
        return {**self.moments.state(), "returns": self.returns}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`."""
        self.moments.load_state(state)
        self.returns = np.array(state["returns"], np.float64)
