"""Watches a run for what keeps it from learning, and says so once."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from acx.evaluation import EvaluationResult
from acx.health.display import heading, line, listing, markdown
from acx.health.examination import Examination
from acx.health.findings import Finding
from acx.observers import METRICS
from acx.reports import Report

HEALTH = "health.json"


class HealthObserver:
    """Examines reports; keeps findings in `health.json`, shows each once, notes it in TensorBoard.

    Args:
      folder: the run's folder.
      examination: of the run, nothing in it yet.
      console: gets a line when a warning or error is found, above the progress bar.
      note: takes (environment steps, tag, Markdown).
      start_steps: where a resumed run goes on; its table has been cut to there.
    """

    def __init__(
        self,
        folder: Path,
        examination: Examination,
        console: Console,
        note: Callable[[int, str, str], None],
        start_steps: int = 0,
    ) -> None:
        self._path = folder / HEALTH
        self._examination = examination
        self._console = console
        self._note = note
        self._working = True
        if start_steps:
            with self._surviving():
                examination.replay(folder / METRICS)
        else:
            self._tell(examination.findings)
        self._write()

    @property
    def findings(self) -> list[Finding]:
        """Everything found so far."""
        return self._examination.findings

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        """A diagnosis that fails, as for a component it doesn't know, must not end the run."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            self._working = False
            self._console.print(
                f"[yellow]the health checks ended: {type(error).__name__}: {error}[/yellow]",
                soft_wrap=True,
            )

    def on_report(self, report: Report) -> None:
        """Examine it, where that is due."""
        if self._working:
            with self._surviving():
                self._tell(self._examination.report(report.env_steps, report.scalars))

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """Note the evaluation."""
        self._examination.evaluation(env_steps, result.mean, result.std)

    def failed(self, message: str) -> None:
        """The run has to stop for this reason."""
        if self._working:
            with self._surviving():
                self._tell(self._examination.failure(message))

    def _tell(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if finding.is_alarm:
                self._console.print(line(finding), soft_wrap=True)
            tag = f"health/{finding.name.replace(' ', '_')}"
            self._note(finding.step, tag, markdown(finding))
        if findings:
            self._write()

    def _write(self) -> None:
        temporary = self._path.with_suffix(".tmp")
        found = [finding.as_json() for finding in self.findings]
        temporary.write_text(
            json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        os.replace(temporary, self._path)

    def show(self) -> None:
        """The list of all findings, for the end of a run."""
        if self._working:
            self._console.print(heading(self.findings))
            self._console.print(listing(self.findings))

    def close(self) -> None:
        """Nothing to release."""
