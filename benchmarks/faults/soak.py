"""A long run: memory, file handles and speed stay where they were."""

import os
import time
from pathlib import Path

import numpy as np

from benchmarks.faults.experiments import ROOT
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Child, start_acx

INTERVAL = 0.5  # seconds between samples
GROWTH = 1.05  # of the resident memory, from the run's second quarter to its last
SLOWER = 0.9  # of the environment steps per second of the processor, likewise


def check(work: Path, steps: int) -> Outcome:
    """Train CartPole for `steps` steps and watch the process."""
    outcome = Outcome("soak", f"{steps:,} steps", "memory, files, speed steady")
    started = time.monotonic()
    arguments = [
        f"--gin_file={ROOT}/experiments/cartpole.gin",
        f"--run_dir={work / 'run'}",
        f"--gin_bindings=total_steps = {steps}",
        "--gin_bindings=Experiment.checkpoint_seconds = 2.0",
    ]
    child = start_acx(arguments, work / "soak.log")
    samples = _samples(child, work / "run/metrics.csv")
    problems = [f"exit code {child.code}: {child.output()[-500:]}"] if child.code else []
    problems += growth(samples)
    outcome.count(problems, f"{len(samples)} samples")
    outcome.seconds = time.monotonic() - started
    return outcome


def _samples(child: Child, table: Path) -> np.ndarray:
    """What the process has until its end, a row each INTERVAL: float64 [samples, 4].

    Resident memory (KiB), open files, seconds of processor time, environment steps.
    """
    samples = []
    process = Path("/proc", str(child.pid))
    while not child.over():
        try:
            lines = (process / "status").read_text().splitlines()
            memory = next(line for line in lines if line.startswith("VmRSS:")).split()[1]
            times = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
            seconds = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
            files = len(list((process / "fd").iterdir()))
            samples.append((int(memory), files, seconds, _steps(table)))
        except (OSError, StopIteration):  # it ended just now, or has no table yet
            pass
        time.sleep(INTERVAL)
    child.wait()
    return np.array(samples, dtype=np.float64).reshape(-1, 4)


def _steps(table: Path) -> int:
    """Environment steps in the last whole row of metrics.csv; 0: it has none."""
    with open(table, "rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
        rows = file.read().split(b"\n")
    first = rows[-2].split(b",")[0] if len(rows) > 2 else b"0"
    return int(first)


def growth(samples: np.ndarray) -> list[str]:
    """What became worse from the second quarter of the run to its last."""
    quarter = len(samples) // 4
    if quarter < 4:
        return [f"only {len(samples)} samples"]
    early, late = samples[quarter : 2 * quarter], samples[-quarter:-1]
    (memory, files, *_), (memory_late, files_late, *_) = (
        np.median(part, axis=0) for part in (early, late)
    )
    speed, speed_late = (
        (part[-1, 3] - part[0, 3]) / (part[-1, 2] - part[0, 2]) for part in (early, late)
    )
    problems = []
    if memory_late > GROWTH * memory:
        problems.append(f"memory grew from {memory:,.0f} to {memory_late:,.0f} KiB")
    if files_late > files:
        problems.append(f"open files grew from {files:.0f} to {files_late:.0f}")
    if speed_late < SLOWER * speed:
        problems.append(f"speed fell from {speed:,.0f} to {speed_late:,.0f} steps a CPU second")
    return problems
