"""Does A beat B? One answer in words, with its size, its certainty and the seeds it would take."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.errors import AnalysisError
from analysis.statistics import probability_of_improvement
from analysis.wording import number

CONFIDENCE = 0.95
POWER = 0.8
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Comparison:
    """A against B in final returns.

    `difference` is mean(A) - mean(B) with its `low` and `high` 95 % limits, `p_value` is two-sided,
    `wins` is the probability that a run of A beats one of B. `pairs` counts the seeds that both
    sides have when they are compared seed by seed, else it is 0. `needed` is how many seeds each
    side needs in all so that a true difference of this size and spread is found four times out of
    five (None where there is no spread, no difference, or more than a thousand seeds are needed).
    """

    first: str
    second: str
    first_finals: NDArray[np.float64]
    second_finals: NDArray[np.float64]
    first_diverged: int
    second_diverged: int
    difference: float
    low: float
    high: float
    p_value: float
    wins: float
    pairs: int
    needed: int | None

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return not self.low <= 0 <= self.high

    def sentence(self) -> str:
        """Say who wins, by how much, with what certainty, and what would settle it."""
        return " ".join([self._verdict(), *self._diverged()])

    def _diverged(self) -> list[str]:
        return [
            f"{count} run{'s' if count > 1 else ''} of {name} diverged and can't count here."
            for name, count in (
                (self.first, self.first_diverged),
                (self.second, self.second_diverged),
            )
            if count
        ]

    def _verdict(self) -> str:
        ahead, behind, sign = (
            (self.first, self.second, 1) if self.difference >= 0 else (self.second, self.first, -1)
        )
        low, high = sorted((sign * self.low, sign * self.high))
        size = f"by {number(abs(self.difference))} (95 % interval {number(low)} to {number(high)})"
        if self.difference == low == high == 0:
            return f"{self.first} and {self.second} end with the same returns in every run."
        if math.isnan(low):
            return (
                f"{ahead} is ahead of {behind} by {number(abs(self.difference))}, but one run a "
                "side says nothing about other seeds: run at least 3 seeds of each."
            )
        if self.decided:
            return (
                f"{ahead} beats {behind} {size}, with {_certainty(self.p_value)} certainty"
                f"{self._basis()}."
            )
        advice = (
            f"about {max(self.needed - self._seeds(), 1)} more seeds each would show a difference "
            "of this size four times out of five"
            if self.needed is not None
            else f"more than {MOST_SEEDS:,} seeds would be needed to show one this small"
        )
        return (
            f"No winner yet: {ahead} is ahead of {behind} {size}, with only "
            f"{_certainty(self.p_value)} certainty{self._basis()}; {advice}."
        )

    def _seeds(self) -> int:
        return self.pairs or min(len(self.first_finals), len(self.second_finals))

    def _basis(self) -> str:
        if self.pairs:
            return f" ({self.pairs} seeds, compared pair by pair)"
        return f" ({len(self.first_finals)} against {len(self.second_finals)} runs)"


def compare(first: pd.DataFrame, second: pd.DataFrame) -> Comparison:
    """Compare two groups of runs, each given as rows of `run_summary`.

    Seeds that both sides have are compared pair by pair when there are at least two and they are
    all the seeds there are: the paired t-interval, since a seed fixes the starting states that both
    meet. Otherwise Welch's. Runs without a finite final return (diverged) lose every comparison in
    `wins` and can't enter the difference; the sentence says so.

    Raises:
        AnalysisError: a side has no scored run or several groups, or the tasks differ.
    """
    sides = [_scored(side) for side in (first, second)]
    tasks = [set(side["task"]) - {""} for side in (first, second)]
    if len(set.union(*tasks)) > 1:
        names = " and ".join(sorted(set.union(*tasks)))
        raise AnalysisError(
            f"these runs train on different tasks ({names}): returns can't be compared"
        )
    a, b = (side["final"].to_numpy(np.float64) for side in sides)
    pairs = _pairs(*sides)
    if pairs is not None:
        a, b = pairs
    low, high, p_value = _interval(a, b, pairs is not None)
    labels = _labels(first, second)
    return Comparison(
        *labels,
        a,
        b,
        int(first["diverged"].sum()),
        int(second["diverged"].sum()),
        float(a.mean() - b.mean()),
        low,
        high,
        p_value,
        _wins(first, second),
        len(a) if pairs is not None else 0,
        _needed(a, b, pairs is not None),
    )


def _scored(runs: pd.DataFrame) -> pd.DataFrame:
    labels = sorted(set(runs["label"]))
    if len(labels) > 1:
        shown = ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")
        raise AnalysisError(
            f"one side holds {len(labels)} configurations ({shown}): name one of them"
        )
    scored = runs[(runs["copy_of"] == "") & runs["final"].notna()]
    if scored.empty:
        raise AnalysisError(
            f"no run of {labels[0]} has a final return: they diverged or never evaluated"
        )
    return scored


def _labels(first: pd.DataFrame, second: pd.DataFrame) -> tuple[str, str]:
    names = first["label"].iloc[0], second["label"].iloc[0]
    return names if names[0] != names[1] else ("A", "B")


def _pairs(
    first: pd.DataFrame, second: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Match runs by seed if both sides have the same seeds, at least two; else None."""
    a, b = (side.set_index("seed")["final"].sort_index() for side in (first, second))
    known = not (a.index.hasnans or b.index.hasnans)
    if not known or len(a) < 2 or not a.index.equals(b.index) or a.index.has_duplicates:
        return None
    return a.to_numpy(np.float64), b.to_numpy(np.float64)


def _interval(
    a: NDArray[np.float64], b: NDArray[np.float64], paired: bool
) -> tuple[float, float, float]:
    """Return the t-interval of mean(a) - mean(b) and the two-sided p-value; NaN for single runs."""
    if min(len(a), len(b)) < 2:
        return math.nan, math.nan, math.nan
    spread = (a - b).std() if paired else a.std() + b.std()
    if spread <= 1e-12 * max(np.abs(a).max(), np.abs(b).max()):  # no chance is left in the data
        difference = float(a.mean() - b.mean())
        return difference, difference, float(difference == 0)
    result = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    interval = result.confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high), float(result.pvalue)


def _wins(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return P(a run of A beats one of B), a diverged run being worse than any other."""
    a, b = (
        side.loc[side["copy_of"] == "", "final"].fillna(-np.inf).to_numpy()[:, None]
        for side in (first, second)
    )
    return float(probability_of_improvement(a, b))


def _needed(a: NDArray[np.float64], b: NDArray[np.float64], paired: bool) -> int | None:
    """Return the seeds per side at which a t-test of this effect has a power of 80 %."""
    if min(len(a), len(b)) < 2:
        return None
    effect = abs(a.mean() - b.mean())
    variance = (a - b).var(ddof=1) if paired else a.var(ddof=1) + b.var(ddof=1)
    if effect == 0 or variance == 0:
        return None
    for counts in (np.arange(2, 65), np.arange(65, MOST_SEEDS + 1)):
        freedom = counts - 1 if paired else 2 * (counts - 1)
        critical = stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
        power = stats.nct.sf(critical, freedom, effect * np.sqrt(counts / variance))
        enough = np.flatnonzero(power >= POWER)
        if len(enough):
            return int(counts[enough[0]])
    return None


def _certainty(p_value: float) -> str:
    certainty = 1 - p_value
    return "more than 99.9 %" if certainty > 0.999 else f"{100 * certainty:.1f} %"
