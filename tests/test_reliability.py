"""A small share of what `make faults` does, and that it would notice a broken promise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import TESTS, TINY, run_here, run_process

from acx.checkpoints import load, save
from benchmarks.faults import comparison, configurations, corruption, environments
from benchmarks.faults.outcome import Outcome, all_kept, summary
from benchmarks.faults.soak import growth

ROOT = TESTS.parent


def faults(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.faults", *arguments],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_killed_runs_end_as_if_nothing_had_happened():
    done = faults("--parts=kills", "--kills=3", "--experiments=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("faults: 3 of 3 cases kept their promise")


def test_damage_full_disks_bad_configurations_and_environments():
    done = faults(
        "--parts=damage,disk,configurations,environments",
        "--experiments=1",
        "--damage=40",
        "--full=1",
        "--every=8",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_make_faults_counts_is_as_much_as_is_promised():
    assert len(configurations.cases()) >= 150
    assert len(environments.IN_STEP) + len(environments.IN_RESET) >= 30


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run and a copy of it."""
    folder = tmp_path_factory.mktemp("runs")
    done = run_process(
        f"--gin_file={TINY}",
        "--run_dir=run",
        "--gin_bindings=Evaluation.every = 16",
        "--gin_bindings=Evaluation.episodes = 2",
        "--gin_bindings=Experiment.checkpoint_seconds = 0.0",
        cwd=folder,
    )
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_copy_is_the_same_run(run, copy):
    assert comparison.differences(copy, run) == []
    assert comparison.orphans(copy) == []


def test_one_changed_number_is_noticed(run, copy):
    newest = comparison.checkpoints(copy)[-1]
    state = load(newest)
    state["learner/actor/0"][3] += 1e-7
    save(newest, state)
    assert comparison.differences(copy, run) == [f"{newest.name}: learner/actor/0 differs"]


def test_a_lost_row_of_the_table_is_noticed(run, copy):
    table = copy / "metrics.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    assert comparison.differences(copy, run) == ["metrics.csv differs"]


def test_a_leftover_is_noticed(copy):
    (copy / "checkpoints" / ".step-1.ckpt.tmp").write_text("")
    assert comparison.orphans(copy) == ["checkpoints/.step-1.ckpt.tmp"]


def test_damage_that_goes_unnoticed_would_be_counted(run):
    newest, before = comparison.checkpoints(run)[-1], comparison.checkpoints(run)[-2]
    assert corruption._problems(run, newest, before)  # nothing is damaged, so it is used


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        (0, 1.06, "memory grew from 1,000 to 1,060 KiB"),
        (1, 1.1, "open files grew from 10 to 11"),
        (3, 0.5, "speed fell from 2,000 to 1,000 steps a CPU second"),
    ],
)
def test_a_long_run_that_gets_worse_is_noticed(column, change, said):
    seconds = np.arange(40.0)
    steady = np.stack([np.full(40, 1000.0), np.full(40, 10.0), seconds, 2000 * seconds], axis=1)
    assert growth(steady) == []
    worse = steady.copy()
    if column == 3:
        worse[20:, 3] = worse[20, 3] + change * 2000 * (seconds[20:] - 20)
    else:
        worse[20:, column] *= change
    assert growth(worse) == [said]


def test_a_broken_promise_or_no_case_at_all_fails_the_campaign():
    good = Outcome("a", "b", "c")
    assert not all_kept([good])
    good.count([], "first")
    assert all_kept([good])
    assert summary([good]) == "faults: 1 of 1 cases kept their promise, 0 s"
    good.count(["x"], "second")
    assert not all_kept([good])
    assert good.broken == ["second: x"]


@pytest.fixture
def acx(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run_here(monkeypatch, capsys, *arguments)


def test_a_run_folder_from_elsewhere_imports_nothing_unasked(acx, copy):
    refused = acx(f"--run_dir={copy}", "--resume")
    assert refused.code == 2
    [line] = refused.err.strip().splitlines()
    assert "was not made here" in line
    assert "toys (" in line
    assert "--allow_imports" in line
    assert acx(f"--run_dir={copy}", "--resume", "--allow_imports").code == 0
    assert acx(f"--run_dir={copy}", "--resume").code == 0  # it has been agreed to


def test_ones_own_run_needs_no_leave(acx, run):
    assert acx(f"--run_dir={run}", "--resume").code == 0


def test_the_best_checkpoint_is_that_of_the_best_evaluation(run):
    best = load(run / "checkpoints" / "best.ckpt")
    rows = comparison._rows(run)
    evaluations = {
        int(r["step"]): float(r["eval/mean_reward"]) for r in rows[:-1] if r["eval/mean_reward"]
    }
    assert len(evaluations) == 2
    assert best["best_evaluation"] == max(evaluations.values())
    assert best["collector/env_steps"] == max(evaluations, key=evaluations.__getitem__)


def test_a_power_failure_takes_nothing_that_a_checkpoint_goes_on_from(acx, monkeypatch, tmp_path):
    """What was not handed to the disk when a checkpoint got its name may be lost without it."""
    folder, synced, checked = tmp_path / "run", {}, []

    def fsync(descriptor):
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size

    def replace(source, target, replace=os.replace):
        replace(source, target)
        if "step-" in str(target):
            for file in (folder / "config.gin", folder / "metrics.csv", Path(target)):
                found = file.stat()
                checked.append((file.name, synced.get(found.st_ino), found.st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    assert acx(f"--gin_file={TINY}", f"--run_dir={folder}").code == 0
    assert {"config.gin", "metrics.csv", "step-000000000032.ckpt"} <= {name for name, *_ in checked}
    assert [case for case in checked if case[1] != case[2]] == []


def test_a_run_stopped_before_its_first_checkpoint_starts_again_and_says_so(acx, run, copy):
    for checkpoint in (copy / "checkpoints").iterdir():
        checkpoint.unlink()
    outcome = acx(f"--run_dir={copy}", "--resume", "--allow_imports")
    assert outcome.code == 0, outcome.err
    assert "starts again from step 0" in " ".join(outcome.out.split())
    assert comparison.differences(copy, run) == []
    assert len(list(copy.glob("events*"))) == 1
