"""Train one trial in this process: the same function for every backend."""

import contextlib
import dataclasses
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from acx import config, runs
from acx.errors import ConfigError, Interrupted, RunError
from acx.evaluation import EvaluationResult
from acx.experiment import Experiment, Stopped
from acx.reports import Report
from sweeps import hparams
from sweeps.folder import OUTPUT
from sweeps.jobs import Job, Outcome


def perform(kind: str, jobs: Sequence[Job], session: runs.Session, device: str) -> dict[str, Any]:
    """Do what a driver asks of a worker; returns the answer."""
    if kind == "check":
        return {"kind": "checked", "problem": check(jobs)}
    if kind == "measure":
        return {"kind": "measured", **measure(jobs[0])}
    return {"kind": "trained", **dataclasses.asdict(train(jobs[0], session, device))}


class _Hyperparameters:
    """Writes down for TensorBoard what a run's hyperparameters are, once it has begun."""

    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder
        self._job = job
        self._written = False

    def on_report(self, report: Report) -> None:
        """Write, unless that was done before."""
        self._write()

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """The same, for a run that is too short for reports."""
        self._write()

    def _write(self) -> None:
        if not self._written and not hparams.has_start(self._folder):
            hparams.write_start(self._folder, self._job.group, self._job.hyperparameters)
        self._written = True

    def close(self) -> None:
        """Nothing to release."""


class PauseAt:
    """Asks an experiment to save and stop after a number of steps. Nothing else changes."""

    def __init__(self, experiment: Experiment, env_steps: float) -> None:
        self._experiment = experiment
        self._env_steps = env_steps

    def on_report(self, report: Report) -> None:
        """Stop where it is time."""
        # The report is of the last iteration: one more is on its way.
        if report.env_steps + self._experiment.rows >= self._env_steps:
            self._experiment.stop_requested = True

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """Not needed."""

    def close(self) -> None:
        """Nothing to release."""


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[Console]:
    """Send everything that this process prints, native code included, to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with open(path, "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield Console(file=file, width=100)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)


def train(job: Job, session: runs.Session, device: str) -> Outcome:
    """Start a trial, or go on with it from its newest checkpoint."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    session.watchers = lambda experiment: [
        _Hyperparameters(folder, job),
        *([] if job.pause_at is None else [PauseAt(experiment, job.pause_at)]),
    ]
    with _output_to(folder / OUTPUT) as console:
        try:
            _start_or_resume(job, folder, console, session, device)
        except Interrupted as error:
            return Outcome("paused", exit_code=128 + error.signum)
        except ConfigError as error:
            console.print(str(error))
            return Outcome("failed", str(error), 2)
        except RunError as error:
            console.print(str(error))
            return Outcome("failed", str(error), 3)
        except Exception as error:
            traceback.print_exc()
            return Outcome("failed", f"{type(error).__name__}: {error}", 1, crashed=True)
    return Outcome("finished")


def _start_or_resume(
    job: Job, folder: Path, console: Console, session: runs.Session, device: str
) -> None:
    if (folder / runs.CONFIG).exists():
        _require_same(job, folder)
        runs.resume(str(folder), [], False, console, device, session, allow_imports=True)
        return
    # A kill just after the folder was made may have left one that is empty but for this.
    shutil.rmtree(folder / runs.CHECKPOINTS, ignore_errors=True)
    runs.start(job.files, job.bindings, str(folder), console, device, session)


def _require_same(job: Job, folder: Path) -> None:
    """Refuse to go on with a run of something else, whoever put it there.

    Raises:
      ConfigError: the folder's configuration is not the trial's.
    """
    config.build(Experiment, config.load(job.files, job.bindings))
    saved = (folder / runs.CONFIG).read_text(encoding="utf-8")
    if saved != config.resolved():
        changes = config.differences(saved, config.resolved())
        raise ConfigError(f"{folder} was run with {'; '.join(changes) or 'another configuration'}")


def check(jobs: Sequence[Job]) -> str:
    """The first reason why one of the trials can't start, or why two are the same; "" if none.

    Only constructs what the configurations describe: no environment is made, nothing compiled.
    """
    seen: dict[str, str] = {}
    for job in jobs:
        try:
            config.build(Experiment, config.load(job.files, job.bindings))
        except ConfigError as error:
            return f"{job.group}: {str(error).removeprefix('--gin_bindings: ')}"
        resolved = config.resolved()
        if resolved in seen:
            return f"{seen[resolved]} and {job.group} are the same experiment"
        seen[resolved] = job.group
    return ""


class _Stopwatch(PauseAt):
    """Stops after some seconds of training, and knows how fast it went after the first report."""

    def __init__(self, experiment: Experiment, seconds: float) -> None:
        super().__init__(experiment, float("inf"))
        self._seconds = seconds
        self._points: list[tuple[float, int]] = []

    def on_report(self, report: Report) -> None:
        """Note the time."""
        self._points.append((time.monotonic(), report.env_steps))
        if self._points[-1][0] - self._points[0][0] >= self._seconds:
            self._experiment.stop_requested = True

    @property
    def first_report(self) -> float:
        """When it came."""
        return self._points[0][0]

    @property
    def steps_per_second(self) -> float:
        """Environment steps per second between the first report and the last; 0 if unknown."""
        (start, first), (end, last) = self._points[0], self._points[-1]
        return (last - first) / (end - start) if end > start else 0.0


def measure(job: Job, seconds: float = 3.0) -> dict[str, Any]:
    """How fast a trial trains in this process, and what its first use costs; keeps nothing."""
    start = time.monotonic()
    experiment = runs.build(job.files, job.bindings)
    stopwatch = _Stopwatch(experiment, seconds)
    with contextlib.suppress(Stopped):
        experiment.run([stopwatch])
    return {
        "steps_per_second": stopwatch.steps_per_second,
        "startup": stopwatch.first_report - start,
    }
