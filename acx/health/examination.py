"""A run's examination: reports in one after the other, findings out; live or from its table."""

import csv
from collections.abc import Mapping
from pathlib import Path

from acx.health.context import Context
from acx.health.diagnoses import CONFIGURATION, examine
from acx.health.findings import Finding, History
from acx.observers import METRICS, read_status

EXAMINATIONS = 500  # a run at most, whatever its reports: so the cost is bounded


class Examination:
    """Gathers reports and examines them at fixed places of the budget.

    The result depends on configuration and reports alone: a run's table gives what was found live.

    Args:
      context: the run's parts and limits.

    Attributes:
      findings: so far, in the order in which they were made; what the configuration alone tells is
        among them at once.
    """

    def __init__(self, context: Context) -> None:
        self.findings: list[Finding] = []
        self.history = History(context.total_steps)
        self._context = context
        self._known: set[str] = set()
        self._next = 0.0
        self._examine(context)
        self._known |= {diagnosis.name for diagnosis in CONFIGURATION}

    def report(self, step: int, scalars: Mapping[str, float]) -> list[Finding]:
        """Take in a report's scalars by tag; returns what is newly found, mostly nothing."""
        self.history.append(step, scalars)
        if step < self._next:
            return []
        self._next = step + self._context.total_steps / EXAMINATIONS
        return self._examine(self._context)

    def evaluation(self, step: int, mean: float, std: float) -> None:
        """Take in an evaluation: the mean and standard deviation of its returns."""
        self.history.append_evaluation(step, mean, std)

    def failure(self, message: str) -> list[Finding]:
        """The run has stopped for this reason; returns what is newly found."""
        return self._examine(self._context.failed(message))

    def _examine(self, context: Context) -> list[Finding]:
        found = examine(self.history, context, self._known)
        self.findings += found
        return found

    def replay(self, table: Path) -> None:
        """Take in all rows of a run's metrics.csv.

        Raises:
          OSError: it can't be read.
        """
        with open(table, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                # A row that is just being written, or was cut off by a crash, has no value yet.
                known = {tag: text for tag, text in row.items() if tag and text}
                try:
                    scalars = {tag: float(text) for tag, text in known.items()}
                except ValueError:
                    continue
                step = int(scalars.pop("step", -1.0))
                if "train/value_loss" in scalars:
                    self.report(step, scalars)
                elif "eval/mean_reward" in scalars and "eval/std_reward" in scalars:
                    self.evaluation(step, scalars["eval/mean_reward"], scalars["eval/std_reward"])


def examined(folder: Path, context: Context) -> Examination:
    """The examination of a run by what its folder holds: the table, and why it failed.

    Raises:
      OSError: the table can't be read.
    """
    examination = Examination(context)
    if (folder / METRICS).exists():
        examination.replay(folder / METRICS)
    status = read_status(folder)
    if status.get("state") == "failed":
        examination.failure(str(status.get("message", "")))
    return examination
