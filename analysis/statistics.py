"""Statistics of scores [runs, tasks]: point estimates, intervals, profiles and comparisons.

The estimators are those of Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (arXiv:2108.13264), whose point is that a handful of seeds needs the
interquartile mean and an interval, not the best mean. Scores must be finite; several tasks must be
on one normalized scale. Every function also takes a leading batch axis, [..., runs, tasks].
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Statistic = Callable[[Scores], NDArray[np.float64]]


def mean(scores: Scores) -> NDArray[np.float64]:
    """Return the mean over all runs and tasks: [..., runs, tasks] -> [...]."""
    return np.mean(scores, axis=(-2, -1))


def median(scores: Scores) -> NDArray[np.float64]:
    """Return the median over tasks of the mean over runs: [..., runs, tasks] -> [...]."""
    return np.median(np.mean(scores, axis=-2), axis=-1)


def interquartile_mean(scores: Scores) -> NDArray[np.float64]:
    """Return the mean of the middle half of all scores: [..., runs, tasks] -> [...].

    A quarter of the scores, rounded down, is left out at either end; below four scores none is.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.mean(flat[..., cut : flat.shape[-1] - cut], axis=-1)


def optimality_gap(scores: Scores, target: float = 1.0) -> NDArray[np.float64]:
    """Return how far scores fall short of `target` on average: [..., runs, tasks] -> [...].

    What lies above the target counts as the target.
    """
    return target - np.mean(np.minimum(scores, target), axis=(-2, -1))


def stratified_indices(
    generator: np.random.Generator, repetitions: int, runs: int, tasks: int
) -> NDArray[np.int64]:
    """Draw runs with replacement, for each task on its own: [repetitions, runs, tasks]."""
    return generator.integers(runs, size=(repetitions, runs, tasks))


def bootstrap_interval(
    scores: Scores,
    statistic: Statistic,
    indices: NDArray[np.int64],
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a statistic of scores [runs, tasks].

    `indices` [repetitions, runs, tasks] are those of `stratified_indices`. The interval is honest
    from about ten runs on; with fewer it is too narrow, which no resampling can mend.
    """
    resampled = np.take_along_axis(scores[None], indices, axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(resampled), [tail, 1 - tail])
    return float(low), float(high)


def performance_profile(scores: Scores, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of scores above each threshold: [..., runs, tasks], [k] -> [..., k]."""
    return np.mean(scores[..., None] > thresholds, axis=(-3, -2))


def probability_of_improvement(first: Scores, second: Scores) -> NDArray[np.float64]:
    """Return how likely a run of `first` beats one of `second`, averaged over tasks.

    [..., runs, tasks] and [..., other runs, tasks] -> [...]: the Mann-Whitney statistic U / (n m),
    in which ties count half.
    """
    pairs = first[..., :, None, :], second[..., None, :, :]
    wins = np.greater(*pairs) + 0.5 * np.equal(*pairs)
    return np.mean(wins, axis=(-3, -2, -1))


def area_under_curve(steps: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the mean height of a learning curve, trapezoids over [n] steps; NaN for no extent."""
    extent = steps[-1] - steps[0]
    return float(np.trapezoid(values, steps) / extent) if extent > 0 else float("nan")


def steps_to_threshold(
    steps: NDArray[np.float64], values: NDArray[np.float64], threshold: float
) -> float:
    """Return the step at which a curve [n] first reaches the threshold, NaN if it never does.

    Between two points the curve is a straight line.
    """
    reached = np.flatnonzero(values >= threshold)
    if not len(reached):
        return float("nan")
    index = int(reached[0])
    if index == 0 or not np.isfinite(values[index - 1]):
        return float(steps[index])
    share = (threshold - values[index - 1]) / (values[index] - values[index - 1])
    return float(steps[index - 1] + share * (steps[index] - steps[index - 1]))
