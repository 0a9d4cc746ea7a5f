"""A long run: memory and file handles stay where they were."""

import time
from pathlib import Path

import numpy as np

from benchmarks.faults.experiments import ROOT
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Child, start_acx

INTERVAL = 0.5  # seconds between samples
GROWTH = 1.05  # of the resident memory, from the run's second quarter to its last


def check(work: Path, steps: int) -> Outcome:
    """Train CartPole for `steps` steps and watch the process."""
    outcome = Outcome("soak", f"{steps:,} steps", "memory within 5 %, file handles the same")
    started = time.monotonic()
    arguments = [
        f"--gin_file={ROOT}/experiments/cartpole.gin",
        f"--run_dir={work / 'run'}",
        f"--gin_bindings=total_steps = {steps}",
        "--gin_bindings=Experiment.checkpoint_seconds = 2.0",
    ]
    child = start_acx(arguments, work / "soak.log")
    samples = _samples(child)
    problems = [f"exit code {child.code}: {child.output()[-500:]}"] if child.code else []
    problems += _growth(samples)
    outcome.count(problems, f"{len(samples)} samples")
    outcome.seconds = time.monotonic() - started
    return outcome


def _samples(child: Child) -> np.ndarray:
    """Resident memory (KiB) and open files of the process until its end: [samples, 2]."""
    samples = []
    process = Path("/proc", str(child.pid))
    while not child.over():
        try:
            lines = (process / "status").read_text().splitlines()
            memory = next(line for line in lines if line.startswith("VmRSS:")).split()[1]
            samples.append((int(memory), len(list((process / "fd").iterdir()))))
        except (OSError, StopIteration):  # it ended just now
            break
        time.sleep(INTERVAL)
    child.wait()
    return np.array(samples, dtype=np.int64).reshape(-1, 2)


def _growth(samples: np.ndarray) -> list[str]:
    """What grew from the second quarter of the run to its last."""
    quarter = len(samples) // 4
    if quarter < 4:
        return [f"only {len(samples)} samples"]
    early, late = samples[quarter : 2 * quarter], samples[-quarter:-1]
    (memory, files), (memory_late, files_late) = np.median(early, axis=0), np.median(late, axis=0)
    problems = []
    if memory_late > GROWTH * memory:
        problems.append(f"memory grew from {memory:,.0f} to {memory_late:,.0f} KiB")
    if files_late > files:
        problems.append(f"open files grew from {files:.0f} to {files_late:.0f}")
    return problems
