"""Running sweeps as a user does: in processes of their own."""

import csv
import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acx.checkpoints import load as load_checkpoint

TESTS = Path(__file__).parent.parent
TINY = TESTS / "tiny.gin"
REPOSITORY = TESTS.parent

CUBE = f"""
Sweep.experiment = '{TINY}'
Sweep.strategy = @Grid()
Sweep.seeds = 1
Grid.axes = {{'gamma': [0.9, 0.99], 'learning_rate': [1e-3, 1e-2], 'clip_norm': [0.5, None]}}
"""

CUBE_TRIALS = {
    f"gamma={gamma},learning_rate={rate},clip_norm={clip}/seed0": (
        f"gamma = {gamma}",
        f"learning_rate = {rate}",
        f"clip_norm = {clip}",
        "seed = 0",
    )
    for gamma, rate, clip in itertools.product((0.9, 0.99), (0.001, 0.01), (0.5, None))
}


def start_sweep(file, folder, *arguments, **options):
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
        **options,
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


def untimed(path):
    """metrics.csv without times."""
    with open(path / "metrics.csv", encoding="utf-8") as file:
        return [
            {tag: value for tag, value in row.items() if not tag.startswith("time/")}
            for row in csv.DictReader(file)
        ]


def assert_same_run(theirs, ours):
    """Two run folders hold the same configuration, rows, checkpoint and return, bit for bit."""
    assert (theirs / "config.gin").read_text() == (ours / "config.gin").read_text()
    assert untimed(theirs) == untimed(ours)
    checkpoints = [sorted((path / "checkpoints").iterdir())[-1] for path in (theirs, ours)]
    assert checkpoints[0].name == checkpoints[1].name
    arrays = [load_checkpoint(path) for path in checkpoints]
    assert arrays[0].keys() == arrays[1].keys()
    for key, array in arrays[1].items():
        np.testing.assert_array_equal(arrays[0][key], array, err_msg=key)
    status = [json.loads((path / "status.json").read_text()) for path in (theirs, ours)]
    assert status[0]["mean_reward"] == status[1]["mean_reward"]
