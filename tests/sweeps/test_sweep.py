"""Whole sweeps: the same results as alone, only what is missing, and messages for people."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from sweeping import CUBE, CUBE_TRIALS, REPOSITORY, assert_same_run, run_sweep, table

TRIALS = list(CUBE_TRIALS)


def results(folder):
    """What is compared between sweeps: the trials' results without times and attempts."""
    return {name: (row["state"], row["mean_reward"]) for name, row in table(folder).items()}


def started(folder):
    """When each run was started."""
    return {
        name: json.loads((folder / name / "status.json").read_text())["started"] for name in TRIALS
    }


def test_T62_a_sweep_trains_every_combination_once(cube):
    rows = table(cube.folder)
    assert list(rows) == TRIALS
    assert {row["state"] for row in rows.values()} == {"finished"}
    assert {row["exit_code"] for row in rows.values()} == {"0"}
    configs = {(cube.folder / name / "config.gin").read_text() for name in TRIALS}
    assert len(configs) == 8
    assert "8 points × 1 seed of" in cube.outcome.out
    for name in TRIALS:
        assert name in cube.outcome.out


def test_T59_T60_every_trial_is_the_run_that_acx_makes_alone(cube, alone):
    """One worker trained them all: the programs of all but the first were another trial's."""
    for name in TRIALS:
        assert_same_run(cube.folder / name, alone / name)


def test_T62_running_again_does_only_what_is_missing(cube, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(cube.folder, folder)
    before, summary = started(folder), (folder / "points.csv").read_text()

    again = run_sweep(cube.file, folder)
    assert again.code == 0
    assert started(folder) == before
    assert "finished" not in again.out.replace("no trial has finished", "")

    shutil.rmtree(folder / TRIALS[5])  # deleted
    half = folder / TRIALS[3]  # killed in the middle of its first steps
    (half / "status.json").unlink()
    shutil.rmtree(half / "checkpoints")
    third = folder / TRIALS[2]  # killed before there was a configuration
    for path in third.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (third / "checkpoints").mkdir()
    (folder / "trials.csv").unlink()
    again = run_sweep(cube.file, folder, "--workers=1")
    assert again.code == 0, again.err
    after = started(folder)
    assert {name for name in TRIALS if after[name] != before[name]} == {
        TRIALS[i] for i in (2, 3, 5)
    }
    assert results(folder) == results(cube.folder)
    assert (folder / "points.csv").read_text() == summary


def test_a_folder_with_another_run_is_not_gone_on_with(cube, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(cube.folder, folder)
    strange = folder / TRIALS[1]
    (strange / "status.json").unlink()
    config = (strange / "config.gin").read_text()
    (strange / "config.gin").write_text(config.replace("gamma = 0.9\n", "gamma = 0.5\n"))
    outcome = run_sweep(cube.file, folder, "--workers=1")
    assert outcome.code == 3
    assert "was run with gamma = 0.5 (now 0.9)" in table(folder)[TRIALS[1]]["message"]


def test_another_base_is_refused(cube, tmp_path):
    file = tmp_path / "cube.gin"
    file.write_text(CUBE + "Sweep.bindings = {'Learner.epochs': 2}\n")
    refused = run_sweep(file, cube.folder)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "Learner.epochs = unset (now 2)" in refused.err


def test_T54_a_misspelt_axis_is_found_before_anything_is_trained(tmp_path):
    file = tmp_path / "typo.gin"
    file.write_text(CUBE.replace("'gamma'", "'gama'"))
    refused = run_sweep(file, tmp_path / "runs", "--workers=1")
    assert refused.code == 2
    assert "nothing reads the macro 'gama'. Did you mean 'gamma'?" in refused.err
    assert not list((tmp_path / "runs").glob("gama*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a sweep"),
        (["--sweep=absent.gin"], "no such gin file: absent.gin"),
        (["--sweep=x", "--workers=0"], "workers"),
        (["--sweep=x", "--wokers=1"], "wokers"),
    ],
)
def test_wrong_commands_end_in_one_line(tmp_path, arguments, message):
    done = subprocess.run(
        [sys.executable, "-m", "sweeps.run", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
