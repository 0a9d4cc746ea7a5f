"""Running sweeps as a user does: in processes of their own."""

import csv
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent.parent
TINY = TESTS / "tiny.gin"
REPOSITORY = TESTS.parent

CUBE = f"""
Sweep.experiment = '{TINY}'
Sweep.strategy = @Grid()
Sweep.seeds = 1
Grid.axes = {{'gamma': [0.9, 0.99], 'learning_rate': [1e-3, 1e-2], 'clip_norm': [0.5, None]}}
"""


def start_sweep(file, folder, *arguments):
    """`python -m sweeps.run` where the toy environments can be found."""
    paths = [str(TESTS), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sweeps.run",
            f"--sweep={file}",
            f"--sweep_dir={folder}",
            *arguments,
        ],
        cwd=Path(file).parent,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def finish(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err)


def run_sweep(file, folder, *arguments):
    return finish(start_sweep(file, folder, *arguments))


def table(folder):
    """trials.csv by trial."""
    with open(folder / "trials.csv", encoding="utf-8") as file:
        return {row["trial"]: row for row in csv.DictReader(file)}
