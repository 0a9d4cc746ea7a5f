"""What a diagnosis reads and what it says."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """Something that was noticed, and what to do about it.

    Attributes:
      name: of the diagnosis.
      severity: 'info' is worth knowing, 'warning' likely hurts, 'error' makes learning impossible.
      seen: one sentence with the numbers.
      why: one sentence on why it hurts.
      binding: the gin binding to try, ready to paste; '' where none can help.
      advice: what to do where no binding can help.
      step: environment steps into training; 0 is before.
    """

    name: str
    severity: Severity
    seen: str
    why: str
    binding: str = ""
    advice: str = ""
    step: int = 0

    @property
    def is_alarm(self) -> bool:
        """Whether it is more than worth knowing."""
        return self.severity != "info"

    def __str__(self) -> str:
        return f"{self.name}: {self.seen}"

    @property
    def remedy(self) -> str:
        """What to type or do."""
        return self.binding or self.advice

    def as_json(self) -> dict[str, Any]:
        """For health.json, in the order in which people read it."""
        return {
            "step": self.step,
            "severity": self.severity,
            "name": self.name,
            "seen": self.seen,
            "why": self.why,
            "try": self.remedy,
        }


def amount(value: float) -> str:
    """A number for people: three digits, thousands separated."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 0.001 or size == 0:
        return f"{value:.3g}"
    return f"{value:.0e}".replace("e-0", "e-")


def rounded(value: float) -> float:
    """To one significant digit: nobody's hyperparameter is 0.0137."""
    return float(f"{value:.0e}") if value else 0.0


class History:
    """The scalars of all reports so far, by tag; NaN where a report didn't have one.

    Args:
      total_steps: the run's budget.
      whole: the reports are all there is to judge by, as before training: nothing needs to last.
    """

    def __init__(self, total_steps: int, whole: bool = False) -> None:
        self.total_steps = total_steps
        self.whole = whole
        self.evaluations: list[tuple[int, float, float]] = []  # step, mean return, std
        self._rows = 0
        self._steps = np.zeros(64, np.int64)
        self._columns: dict[str, np.ndarray] = {}  # as long as `_steps`, or shorter

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """Take in a report's scalars."""
        if self._rows == len(self._steps):  # twice as long: a row costs the same however many
            self._steps = np.append(self._steps, np.zeros_like(self._steps))
        for tag, value in scalars.items():
            column = self._columns.get(tag)
            if column is None or len(column) <= self._rows:
                longer = np.full(len(self._steps), np.nan)
                if column is not None:
                    longer[: len(column)] = column
                column = self._columns[tag] = longer
            column[self._rows] = value
        self._steps[self._rows] = step
        self._rows += 1

    def append_evaluation(self, step: int, mean: float, std: float) -> None:
        """Take in an evaluation."""
        self.evaluations.append((step, mean, std))

    def has(self, tags: Iterable[str]) -> bool:
        """Whether all tags were reported at least once."""
        return all(tag in self._columns for tag in tags)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, tag: str) -> np.ndarray:
        """The tag's value in every report, float64."""
        column = self._columns[tag][: self._rows]
        if len(column) == self._rows:
            return column
        return np.append(column, np.full(self._rows - len(column), np.nan))

    @property
    def steps(self) -> np.ndarray:
        """Environment steps at every report."""
        return self._steps[: self._rows]

    @property
    def step(self) -> int:
        """Environment steps so far."""
        return int(self.steps[-1]) if self._rows else 0

    @property
    def share(self) -> float:
        """The part of the budget that is over."""
        return self.step / self.total_steps

    def recent(self, tag: str, share: float = 0.05) -> float:
        """The tag's median over the last `share` of the budget, where it was reported."""
        return float(np.median(self.recent_values(tag, share)))

    def recent_values(self, tag: str, share: float = 0.05, reports: int = 1) -> np.ndarray:
        """The tag's values in the last `share` of the budget, or of the last so many reports."""
        values = self[tag]
        known = np.isfinite(values)
        if not known.any():
            return np.array([np.nan])
        since = self.step - share * self.total_steps
        late = known & (self.steps > since)
        return values[late] if late.sum() >= reports else values[known][-reports:]

    def lasted(self, flags: np.ndarray, share: float = 0.05, reports: int = 4) -> bool:
        """Whether all of the last reports are flagged, over `share` of the budget at least.

        Args:
          flags: one a report; a comparison with NaN is False.
          share: of the budget.
          reports: as many at least.
        """
        if not len(flags) or not flags[-1]:
            return False
        if self.whole:
            return True
        clear = np.flatnonzero(~flags)
        first = int(clear[-1]) + 1 if len(clear) else 0
        start = int(self.steps[first - 1]) if first else 0
        return len(flags) - first >= reports and self.step - start >= share * self.total_steps

    def improved(self) -> bool:
        """Whether the mean return rose by a quarter of the first episodes' spread, or more.

        Training that gets somewhere is never called sick for how its policy looks.
        """
        if not self.has(["rollout/ep_rew_mean"]):
            return False
        means = self["rollout/ep_rew_mean"]
        known = np.flatnonzero(np.isfinite(means))
        if not len(known):
            return False
        episodes = self["rollout/episodes"]
        first = next((i for i in known if episodes[i] >= 10), known[-1])
        spread = self["rollout/ep_rew_max"][first] - self["rollout/ep_rew_min"][first]
        return bool(means[known[-1]] - means[first] > 0.25 * spread)


class Diagnosis(ABC):
    """Looks for one thing that keeps runs from learning.

    The class docstring says when it fires and why the threshold is what it is.
    """

    name: ClassVar[str]
    why: ClassVar[str]
    needs: ClassVar[Sequence[str]] = ()  # tags without which it has nothing to say

    @abstractmethod
    def examine(self, history: History, context: Any) -> Finding | None:
        """A finding, or None."""

    def finding(
        self,
        history: History,
        seen: str,
        binding: str = "",
        advice: str = "",
        severity: Severity = "warning",
    ) -> Finding:
        """This diagnosis' finding, now."""
        return Finding(self.name, severity, seen, self.why, binding, advice, history.step)
