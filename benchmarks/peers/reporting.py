"""What every worker prints: one JSON object on its last line."""

import json
import multiprocessing
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

STARTED = time.perf_counter()  # import this before anything that takes time
Mark = tuple[float, int]  # seconds at the end of an iteration, environment steps by then


def revision(copy: Path) -> str:
    """The commit of a copy, shortened; 'a copy' where Git doesn't know."""
    command = ["git", "-C", str(copy), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "a copy"


def children_mb() -> float:
    """The memory that this process's children share with nobody. It takes a moment to read."""
    kilobytes = 0
    for child in multiprocessing.active_children():
        for line in Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024


def print_marks(
    marks: Sequence[Mark], warm: int, first: int, version: str, others_mb: float = 0.0
) -> None:
    """Print the speed after mark number `warm`, and start-up until mark number `first`."""
    (begin, before), (end, after) = marks[warm], marks[-1]
    print_figures((after - before) / (end - begin), marks[first][0] - STARTED, version, others_mb)


def print_figures(
    steps_per_second: float, startup: float, version: str, others_mb: float = 0.0
) -> None:
    """Print environment steps per second, seconds of start-up and the peak of memory.

    `others_mb` is the memory of further processes.
    """
    figures = {
        "steps_per_second": steps_per_second,
        "startup": startup,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + others_mb,
        "version": version,
    }
    print(json.dumps(figures))
