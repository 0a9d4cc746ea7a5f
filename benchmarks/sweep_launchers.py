"""A sweep of short trials by acx's warm workers and by Ray Tune, on the same cores.

python -m benchmarks.sweep_launchers

Trains the same 81 configurations of Pendulum, 27 points with 3 seeds, as a sweep of acx and by Ray
Tune, whose trials are processes of their own, as many at a time; then acx once more, so that a slow
spell of the machine is noticed. Wall times are of whole commands, start-up included. The final
return of every trial must be the same on both sides, to the last bit. Exits with 1 below the goal.
"""

import csv
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from absl import app, flags

from sweeps.values import literal

HERE = Path(__file__).parent
RESULT = HERE / "results/sweep_launchers.json"
GOAL = 2.0

STEPS = flags.DEFINE_integer("steps", 4096, "Environment steps of a trial.", lower_bound=1024)
WORKERS = flags.DEFINE_integer("workers", 2, "Processes at a time.", lower_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 3, "Of each point.", lower_bound=1)
QUICK = flags.DEFINE_bool("quick", False, "Two points only, to try it out; keeps no figures.")

EXPERIMENT = "experiments/pendulum.gin"
AXES: dict[str, list[Any]] = {
    "gamma": [0.9, 0.95, 0.99],
    "reward_scale": [0.01, 0.1, 1.0],
    "clip_norm": [0.5, 2.0, None],
}
QUICK_AXES: dict[str, list[Any]] = {"gamma": [0.9], "reward_scale": [0.1], "clip_norm": [0.5, None]}


def timed(command: list[str]) -> tuple[float, str]:
    """Run a command; its seconds and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def by_acx(axes: dict[str, list[Any]], folder: Path) -> tuple[float, dict[str, float]]:
    """The sweep by acx: seconds, and the final return of each trial."""
    folder.mkdir()
    sweep = folder / "sweep.gin"
    sweep.write_text(
        f"Sweep.experiment = '{EXPERIMENT}'\nSweep.seeds = {SEEDS.value}\n"
        f"Sweep.strategy = @Grid()\nGrid.axes = {literal(axes)}\n"
        f"Sweep.bindings = {{'total_steps': {STEPS.value}}}\n"
    )
    command = [sys.executable, "-m", "sweeps.run", f"--sweep={sweep}"]
    seconds, _ = timed([*command, f"--sweep_dir={folder / 'runs'}", f"--workers={WORKERS.value}"])
    with open(folder / "runs" / "trials.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    returns = {}
    for row, values in zip(
        rows, itertools.product(*axes.values(), range(SEEDS.value)), strict=True
    ):
        names = zip([*axes, "seed"], values, strict=True)
        returns[",".join(f"{name}={value}" for name, value in names)] = float(row["mean_reward"])
    return seconds, returns


def by_tune(axes: dict[str, list[Any]], folder: Path) -> tuple[float, dict[str, Any]]:
    """The same trials by Ray Tune: seconds, and what its side reports."""
    work = {
        "experiment": EXPERIMENT,
        "shared": {"total_steps": STEPS.value},
        "axes": axes | {"seed": list(range(SEEDS.value))},
        "folder": str(folder),
        "workers": WORKERS.value,
    }
    seconds, output = timed([sys.executable, str(HERE / "peers/ray_tune.py"), json.dumps(work)])
    return seconds, json.loads(output.splitlines()[-1])


def main(arguments: list[str]) -> int:
    """Measure, compare the returns, print and keep the figures."""
    if importlib.util.find_spec("ray") is None:
        raise SystemExit("needs Ray Tune: pip install 'ray[tune]'")
    axes = QUICK_AXES if QUICK.value else AXES
    with tempfile.TemporaryDirectory() as scratch:
        first, returns = by_acx(axes, Path(scratch, "acx"))
        print(f"acx       {first:7.1f} s", flush=True)
        tune, theirs = by_tune(axes, Path(scratch, "tune"))
        print(f"Ray Tune  {tune:7.1f} s", flush=True)
        second, again = by_acx(axes, Path(scratch, "acx again"))
        print(f"acx       {second:7.1f} s", flush=True)
    if not returns == theirs["returns"] == again:
        raise SystemExit("the returns differ: these were not the same trials")
    if theirs["processes"] != len(returns):
        raise SystemExit(f"Ray Tune used {theirs['processes']} processes")
    ratio = tune / statistics.mean([first, second])
    result = {
        "trials": len(returns),
        "steps": STEPS.value,
        "at a time": WORKERS.value,
        "cores": os.cpu_count(),
        "seconds": {"acx": [round(first, 1), round(second, 1)], "Ray Tune": [round(tune, 1)]},
        "ratio": round(ratio, 2),
        "versions": {"Ray Tune": theirs["version"]},
    }
    if not QUICK.value:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{len(returns)} trials, the same returns on both sides: acx is {ratio:.1f} times as fast"
    )
    return int(ratio < GOAL)


if __name__ == "__main__":
    app.run(main)
