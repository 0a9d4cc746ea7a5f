"""What a sweep costs beyond its training, and what the same trials cost as separate processes.

python -m benchmarks.sweep_overhead --trials=27 --workers=1
python -m benchmarks.sweep_overhead --sweep=sweeps/pendulum_grid.gin --workers=2

Trains short trials of Pendulum twice: as a sweep, whose workers stay warm, and each in an acx
process of its own, as launchers do that start a process for each trial. Or trains another sweep,
once. Prints the seconds of both, and of the sweep what a trial costs beyond its training, the first
of each worker apart. A sweep of its own exits with 1 where its overhead is above the goals.
"""

import contextlib
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import app, flags

TRIALS = flags.DEFINE_integer("trials", 27, "Points, of one seed each.", lower_bound=2)
ALONE = flags.DEFINE_integer("alone", 6, "How many of them are also run alone.", lower_bound=1)
WORKERS = flags.DEFINE_integer("workers", 1, "Processes at a time.", lower_bound=1)
SWEEP = flags.DEFINE_string("sweep", None, "A sweep's file, to measure instead of short trials.")
STEPS = flags.DEFINE_integer("steps", 4096, "Environment steps of a trial.", lower_bound=1024)

EXPERIMENT = "experiments/pendulum.gin"
GOAL_SHARE, GOAL_SECONDS = 0.10, 0.5  # of the workers' time; of a trial that is no worker's first


def write_sweep(path: Path, gammas: list[float]) -> None:
    """The sweep's gin file."""
    path.write_text(
        f"Sweep.experiment = '{EXPERIMENT}'\nSweep.seeds = 1\nSweep.strategy = @Grid()\n"
        f"Grid.axes = {{'gamma': {gammas}}}\n"
        f"Sweep.bindings = {{'total_steps': {STEPS.value}}}\n"
    )


def run_sweep(file: Path | str, folder: Path) -> float:
    """Train all trials as one sweep; its seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "sweeps.run", f"--workers={WORKERS.value}"]
    where = [f"--sweep={file}", f"--sweep_dir={folder / 'runs'}"]
    subprocess.run([*command, *where], check=True, capture_output=True)
    return time.perf_counter() - start


def run_alone(folder: Path, gammas: list[float]) -> float:
    """Train trials in a process each; seconds in all."""

    def train(gamma: float) -> None:
        command = [sys.executable, "-m", "acx.main", f"--gin_file={EXPERIMENT}"]
        bindings = [f"gamma = {gamma}", f"total_steps = {STEPS.value}"]
        options = [f"--gin_bindings={binding}" for binding in bindings]
        where = f"--run_dir={folder / str(gamma)}"
        subprocess.run([*command, *options, where], check=True, capture_output=True)

    start = time.perf_counter()
    with ThreadPoolExecutor(WORKERS.value) as pool:
        list(pool.map(train, gammas))
    return time.perf_counter() - start


def costs(runs: Path) -> tuple[list[float], list[float]]:
    """Of each trial, in the order of their starts: seconds in all, and of training."""
    with open(runs / "trials.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = []
    for row in rows:
        status = json.loads((runs / row["trial"] / "status.json").read_text())
        found.append(
            (status["started"], float(row["seconds"]), status["updated"] - status["started"])
        )
    found.sort()
    return [seconds for _, seconds, _ in found], [training for _, _, training in found]


def print_costs(swept: float, seconds: list[float], training: list[float]) -> tuple[float, float]:
    """Print what a sweep cost; returns the share that isn't training, and the later trials' mean.

    Args:
      swept: wall time of the whole command in seconds.
      seconds: of each trial, in the order of their starts.
      training: of each trial, of those.
    """
    beyond = [whole - trained for whole, trained in zip(seconds, training, strict=True)]
    first, warm = beyond[: WORKERS.value], beyond[WORKERS.value :]
    share, mean = 1 - sum(training) / (swept * WORKERS.value), statistics.mean(warm)
    print(f"  the whole command              {swept:7.1f} s")
    print(f"  training                       {sum(training):7.1f} s of the workers")
    print(f"  all else                       {share:7.1%} of the workers' time")
    print(f"  beyond it, first of a worker   {max(first):7.2f} s")
    print(f"  beyond it, each of the others  {mean:7.2f} s, at most {max(warm):.2f}")
    return share, mean


def main(arguments: list[str]) -> int:
    """Measure and print."""
    gammas = [round(0.9 + 0.09 * i / TRIALS.value, 6) for i in range(TRIALS.value)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if SWEEP.value:
            swept = run_sweep(SWEEP.value, folder)
            seconds, training = costs(folder / "runs")
            print(f"{len(seconds)} trials of {SWEEP.value}, {WORKERS.value} at a time")
            share, mean = print_costs(swept, seconds, training)
            return int(share > GOAL_SHARE or mean > GOAL_SECONDS)
        write_sweep(folder / "sweep.gin", gammas)
        swept = run_sweep(folder / "sweep.gin", folder)
        seconds, training = costs(folder / "runs")
        alone = run_alone(folder, gammas[: ALONE.value])
    estimate = alone / ALONE.value * TRIALS.value
    print(f"{TRIALS.value} trials of {STEPS.value:,} steps, {WORKERS.value} at a time")
    print_costs(swept, seconds, training)
    print(f"  a process for each             {estimate:7.1f} s, from {ALONE.value} of them")
    print(f"  ratio                          {estimate / swept:7.1f}")
    return 0


if __name__ == "__main__":
    app.run(main)
