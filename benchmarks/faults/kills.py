"""SIGKILL at random moments; each killed run is resumed to its end and compared bit for bit."""

import builtins
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from acx import checkpoints
from acx.errors import RunError
from benchmarks.faults import experiments
from benchmarks.faults.comparison import checkpoints as checkpoints_of
from benchmarks.faults.comparison import differences, orphans
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Child, start_acx


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing happened to, and how long it took."""

    gin_file: Path
    folder: Path
    seconds: float
    training_seconds: float  # from the first checkpoint to the end
    saves: int


def undisturbed_runs(work: Path, count: int) -> dict[str, Undisturbed]:
    """Run each of the first `count` experiments once.

    Raises:
      RuntimeError: one of them failed, so there is nothing to compare with.
    """
    runs = {}
    files = list(experiments.write(work / "gin").items())[:count]
    for number, (name, file) in enumerate(files):
        folder = work / f"undisturbed{number}"
        child = _start(file, folder, work / f"undisturbed{number}.log")
        first = None
        while not child.over():
            if first is None and checkpoints_of(folder):
                first = time.monotonic()
            time.sleep(0.002)
        now = time.monotonic()
        if child.code or first is None:
            raise RuntimeError(f"{name} failed: {child.output()[-2000:]}")
        last = checkpoints.load(checkpoints_of(folder)[-1])
        saves = int(last["learner/iterations"]) + 1
        runs[name] = Undisturbed(file, folder, now - child.started, now - first, saves)
    return runs


def _start(file: Path, folder: Path, log: Path, prepare: Callable[[], None] | None = None) -> Child:
    return start_acx([f"--gin_file={file}", f"--run_dir={folder}"], log, prepare)


# When to kill: starts the command, kills it, and returns it ended.
Killer = Callable[[Undisturbed, Path, Path, np.random.Generator], Child]


def any_moment(run: Undisturbed, folder: Path, log: Path, rng: np.random.Generator) -> Child:
    """From the process's first millisecond to after its end."""
    child = _start(run.gin_file, folder, log)
    _wait_or_end(child, rng.uniform(0, run.seconds))
    child.kill()
    return child


def while_training(run: Undisturbed, folder: Path, log: Path, rng: np.random.Generator) -> Child:
    """After the first checkpoint."""
    child = _start(run.gin_file, folder, log)
    while not child.over() and not checkpoints_of(folder):
        time.sleep(0.001)
    _wait_or_end(child, rng.uniform(0, run.training_seconds))
    child.kill()
    return child


def _wait_or_end(child: Child, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not child.over():
        time.sleep(0.0005)


STEPS_OF_A_WRITE = ("write", "before fsync", "after fsync", "after rename", "after folder sync")


def while_saving(run: Undisturbed, folder: Path, log: Path, rng: np.random.Generator) -> Child:
    """At a random byte or between two steps of a random checkpoint's write."""
    number = int(rng.integers(run.saves))
    step = STEPS_OF_A_WRITE[rng.integers(len(STEPS_OF_A_WRITE))]
    fraction = rng.uniform()
    child = _start(run.gin_file, folder, log, lambda: _die_in_save(number, step, fraction))
    child.wait()
    return child


def _die_in_save(number: int, step: str, fraction: float) -> None:
    """Make this process kill itself in its `number`-th save (from 0), at `step`."""
    seen = dict.fromkeys(["files", "fsync"], 0)

    def die(at: str) -> None:
        if at == step and seen["files"] == number + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    class DyingFile:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> "DyingFile":
            return self

        def __exit__(self, *error: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, content: Any) -> None:
            if step == "write" and seen["files"] == number + 1:
                self._file.write(content[: int(fraction * len(content))])
                self._file.flush()
                die("write")
            self._file.write(content)

    def opened(path: Any, mode: str) -> Any:
        if mode != "wb":
            return builtins.open(path, mode)
        seen["files"] += 1
        seen["fsync"] = 0
        return DyingFile(builtins.open(path, mode))

    def fsync(descriptor: int) -> None:
        seen["fsync"] += 1
        of_file = seen["fsync"] == 1
        if of_file:
            die("before fsync")
        os.fsync(descriptor)
        die("after fsync" if of_file else "after folder sync")

    def replace(source: Any, target: Any) -> None:
        os.replace(source, target)
        die("after rename")

    changed = {"fsync": fsync, "replace": replace}
    checkpoints.os = SimpleNamespace(**{**vars(os), **changed})  # type: ignore[assignment]
    checkpoints.open = opened  # type: ignore[attr-defined]


def check(
    killer: Killer, fault: str, runs: dict[str, Undisturbed], work: Path, numbers: range, seed: int
) -> Outcome:
    """Kill the runs of these numbers, the experiments in turn; resume and compare each."""
    outcome = Outcome("kills", fault, "resumed to the end, bit-identical; nothing lost or left")
    started = time.monotonic()
    for number in numbers:
        name = list(runs)[number % len(runs)]
        folder = work / f"{fault.replace(' ', '-')}{number}"
        rng = np.random.default_rng((seed, number))
        child = _killed(killer, runs[name], folder, rng)
        saved = [path.stem for path in checkpoints_of(folder)]
        problems = _problems(child, runs[name], folder)
        outcome.count(problems, f"{name}, {folder}")
        print(number, name, f"killed after {(saved or ['nothing'])[-1]}", problems, flush=True)
    outcome.seconds = time.monotonic() - started
    return outcome


def _killed(killer: Killer, run: Undisturbed, folder: Path, rng: np.random.Generator) -> Child:
    """A run that was killed, not one that was over before its moment came."""
    for _ in range(20):
        child = killer(run, folder, folder.with_suffix(".log"), rng)
        if child.code != 0:
            break
        shutil.rmtree(folder)
    return child


def _promised(folder: Path) -> str:
    """What resuming says: it goes on from the newest checkpoint."""
    found = checkpoints_of(folder)
    if found:
        return f"resuming after {int(found[-1].stem.removeprefix('step-')):,} steps"
    return "starts again from step 0" if (folder / "config.gin").exists() else ""


def _problems(child: Child, run: Undisturbed, folder: Path) -> list[str]:
    if child.code != -signal.SIGKILL:
        return [f"exit code {child.code}: {child.output()[-500:]}"]
    problems = [f"left process {pid} behind" for pid in child.survivors()]
    for path in checkpoints_of(folder):
        try:
            checkpoints.load(path)
        except RunError as error:
            problems.append(str(error))
    log = folder.with_suffix(".resumed.log")
    said = _promised(folder)
    if (folder / "config.gin").exists():
        resumed = start_acx([f"--run_dir={folder}", "--resume"], log)
    else:  # killed before there was a run
        resumed = _start(run.gin_file, folder, log)
    if resumed.wait():
        return [*problems, f"resuming failed: {resumed.output()[-500:]}"]
    if said not in " ".join(resumed.output().split()):
        problems.append(f"did not say {said!r}")  # from step 0 the end would be the same
    problems += differences(folder, run.folder)
    return [*problems, *(f"left {name} behind" for name in orphans(folder))]
