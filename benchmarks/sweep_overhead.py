"""What a sweep costs beyond its training, and what the same trials cost as separate processes.

python -m benchmarks.sweep_overhead --trials=27 --workers=1

Trains short trials of Pendulum twice: as a sweep, whose workers stay warm, and each in an acx
process of its own, as launchers do that start a process for each trial. Prints the seconds of both,
and of the sweep what a trial costs beyond its training, the first of each worker apart.
"""

import contextlib
import csv
import json
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
STEPS = flags.DEFINE_integer("steps", 4096, "Environment steps of a trial.", lower_bound=1024)

EXPERIMENT = "experiments/pendulum.gin"


def write_sweep(path: Path, gammas: list[float]) -> None:
    """The sweep's gin file."""
    path.write_text(
        f"Sweep.experiment = '{EXPERIMENT}'\nSweep.seeds = 1\nSweep.strategy = @Grid()\n"
        f"Grid.axes = {{'gamma': {gammas}}}\n"
        f"Sweep.bindings = {{'total_steps': {STEPS.value}}}\n"
    )


def run_sweep(folder: Path) -> float:
    """Train all trials as one sweep; its seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "sweeps.run", f"--workers={WORKERS.value}"]
    where = [f"--sweep={folder / 'sweep.gin'}", f"--sweep_dir={folder / 'runs'}"]
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


def main(arguments: list[str]) -> None:
    """Measure and print."""
    gammas = [round(0.9 + 0.09 * i / TRIALS.value, 6) for i in range(TRIALS.value)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_sweep(folder / "sweep.gin", gammas)
        swept = run_sweep(folder)
        seconds, training = costs(folder / "runs")
        alone = run_alone(folder, gammas[: ALONE.value])
    first = WORKERS.value
    beyond = [whole - trained for whole, trained in zip(seconds, training, strict=True)]
    warm = beyond[first:]
    estimate = alone / ALONE.value * TRIALS.value
    print(f"{TRIALS.value} trials of {STEPS.value:,} steps, {WORKERS.value} at a time")
    print(f"  as a sweep                     {swept:7.1f} s")
    print(f"  a process for each             {estimate:7.1f} s, from {ALONE.value} of them")
    print(f"  ratio                          {estimate / swept:7.1f}")
    print(f"  training in the sweep          {sum(training):7.1f} s")
    print(f"  beyond it, first of a worker   {max(beyond[:first]):7.2f} s")
    print(
        f"  beyond it, each of the others  {sum(warm) / len(warm):7.2f} s, at most {max(warm):.2f}"
    )


if __name__ == "__main__":
    app.run(main)
