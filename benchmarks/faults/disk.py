"""Disks that are full, folders that can't be written or vanish, a reader that stops listening."""

import os
import resource
import shutil
import time
from pathlib import Path

import numpy as np

from acx.checkpoints import load
from acx.errors import RunError
from benchmarks.faults.comparison import checkpoints, differences, orphans
from benchmarks.faults.kills import Undisturbed
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Child, start_acx

NOBODY = 65534


def _failed(child: Child, *named: str) -> list[str]:
    """The run ended with one line and exit code 3."""
    code = child.wait()
    last = child.output().strip().splitlines()[-1:]
    text = "".join(last)
    problems = [] if code == 3 else [f"exit code {code}"]
    if "Traceback" in child.output() or not text.startswith("acx: the run stopped: "):
        problems.append(f"said {child.output()[-600:]}")
    return problems + [f"{name!r} is not in {text!r}" for name in named if name not in text]


def _whole(folder: Path) -> list[str]:
    problems = []
    for path in checkpoints(folder):
        try:
            load(path)
        except RunError as error:
            problems.append(str(error))
    return problems


def full_disk(run: Undisturbed, work: Path, count: int, seed: int) -> Outcome:
    """No file may grow past a random size; then the run is resumed without that limit."""
    outcome = Outcome("disk", "full", "one line, checkpoints whole; resumed bit-identical")
    started, rng = time.monotonic(), np.random.default_rng(seed)
    largest = max(p.stat().st_size for p in run.folder.rglob("*") if p.is_file())
    for number in range(count):
        size = int(rng.integers(6_000, largest))
        folder = work / f"full{number}"
        log = folder.with_suffix(".log")

        def limit(size: int = size) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        child = start_acx([f"--gin_file={run.gin_file}", f"--run_dir={folder}"], log, limit)
        problems = _failed(child, "can't write", str(folder)) + _whole(folder)
        resumed = start_acx([f"--run_dir={folder}", "--resume"], log)
        if resumed.wait():
            problems.append(f"resuming failed: {resumed.output()[-500:]}")
        else:
            problems += differences(folder, run.folder)
            problems += [f"left {name} behind" for name in orphans(folder)]
        outcome.count(problems, f"files of at most {size} bytes, {folder}")
    outcome.seconds = time.monotonic() - started
    return outcome


def folders(run: Undisturbed, work: Path) -> Outcome:
    """Removed while running; not writable at the start; not writable when resumed."""
    outcome = Outcome("disk", "folder removed or read-only", "one line, checkpoints whole")
    started = time.monotonic()
    for case, attempt in (
        ("removed while running", _removed),
        ("read-only at the start", _read_only_start),
        ("read-only when resumed", _read_only_resume),
    ):
        outcome.count(attempt(run, work), case)
    outcome.seconds = time.monotonic() - started
    return outcome


def _removed(run: Undisturbed, work: Path) -> list[str]:
    folder = work / "removed"
    child = start_acx([f"--gin_file={run.gin_file}", f"--run_dir={folder}"], work / "removed.log")
    while not child.over() and not checkpoints(folder):
        time.sleep(0.001)
    folder.rename(work / "gone")
    return _failed(child, "can't write", str(folder)) + _whole(work / "gone")


def _as_nobody() -> None:
    os.setgid(NOBODY)
    os.setuid(NOBODY)  # the superuser may write everywhere


def _read_only_start(run: Undisturbed, work: Path) -> list[str]:
    folder = work / "closed"
    folder.mkdir()
    child = _start_as_nobody(
        [f"--gin_file={run.gin_file}", f"--run_dir={folder / 'run'}"], work / "closed.log"
    )
    code, said = child.wait(), child.output().strip().splitlines()[-1]
    right = code == 2 and said.startswith("acx: ") and "can't create" in said
    return [] if right else [f"exit code {code}, said {said}"]


def _read_only_resume(run: Undisturbed, work: Path) -> list[str]:
    folder = work / "read-only"
    shutil.copytree(run.folder, folder)
    checkpoints(folder)[-1].unlink()  # so that there is something to do
    child = _start_as_nobody([f"--run_dir={folder}", "--resume"], work / "read-only.log")
    return _failed(child, "can't write", str(folder)) + _whole(folder)


def _start_as_nobody(arguments: list[str], log: Path) -> Child:
    for folder in (log.parent, *log.parent.parents):
        if os.stat(folder).st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    return start_acx(arguments, log, _as_nobody if os.getuid() == 0 else None)


def closed_output(run: Undisturbed, work: Path) -> Outcome:
    """The reader of the command's output leaves at once: the run goes on to its end."""
    outcome = Outcome("disk", "output closed (| head)", "the run ends as if somebody listened")
    started = time.monotonic()
    folder = work / "closed-output"

    def close() -> None:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)

    child = start_acx(
        [f"--gin_file={run.gin_file}", f"--run_dir={folder}"], work / "closed-output.log", close
    )
    problems = [] if child.wait() == 0 else [f"exit code {child.code}: {child.output()[-500:]}"]
    if not problems:
        problems = differences(folder, run.folder)
    if "Traceback" in child.output() or "BrokenPipe" in child.output():
        problems.append(f"said {child.output()[-500:]}")
    outcome.count(problems, "stdout closed")
    outcome.seconds = time.monotonic() - started
    return outcome
