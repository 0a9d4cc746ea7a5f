"""TensorBoard and the analysis on runs that acx trained: what a user sees and reads."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from browser import EXECUTABLE, ask, tensorboard, visit

from analysis import load_configs, load_runs, load_status

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two short runs of the Pendulum experiment."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        subprocess.run(
            [
                *(sys.executable, "-m", "acx.main", "--gin_file=experiments/pendulum.gin"),
                *("--gin_bindings=total_steps = 4096", f"--seed={seed}"),
                f"--run_dir={root}/pendulum/seed{seed}",
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    return root


@pytest.fixture(scope="module")
def address(trained):
    with tensorboard(trained, lambda address: len(ask(address, "/data/runs") or []) == 2) as found:
        yield found


def test_the_tables_hold_what_the_run_itself_wrote_down(trained):
    table = load_runs(trained)
    for (run, tag), points in table.groupby(["run", "tag"], observed=True):
        with open(trained / run / "metrics.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row.get(tag)]
        assert points["step"].tolist() == [int(row["step"]) for row in rows], tag
        written = np.array([row[tag] for row in rows], np.float32)
        np.testing.assert_allclose(points["value"], written, rtol=1e-6, err_msg=tag)
    status = load_status(trained)
    assert status["state"].tolist() == ["finished"] * 2
    assert status["seed"].tolist() == [0, 1]
    assert status["group"].nunique() == 1
    assert set(status["task"]) == {"Pendulum-v1"}
    assert load_configs(trained)["gamma"].tolist() == [0.95, 0.95]


def test_tensorboard_serves_the_same_points(trained, address):
    table = load_runs(trained, tags="rollout/ep_rew_mean")
    for run, points in table.groupby("run", observed=True):
        path = f"/data/plugin/scalars/scalars?tag=rollout/ep_rew_mean&run={run}"
        served = np.array(ask(address, path))
        np.testing.assert_array_equal(served[:, 1], points["step"])
        np.testing.assert_allclose(served[:, 2], points["value"], rtol=1e-6)


@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium here")
def test_a_user_sees_scalars_layout_and_configuration(trained, address, tmp_path):
    runs = ("pendulum/seed0", "pendulum/seed1")
    evaluations = load_runs(trained, tags="eval/mean_reward")["value"]

    async def look(page):
        await page.open(f"{address}/#timeseries")
        # One card overlays both runs: their values stand in its table.
        values = [f"{run} {value:,.4f}"[:-1] for run, value in zip(runs, evaluations, strict=True)]
        await page.text("eval /mean_reward", *values)
        await page.open(f"{address}/#scalars")
        await page.text(*runs, "rollout/ep_rew_mean")
        await page.open(f"{address}/#custom_scalars")
        await page.text(*runs, "Returns", "training and evaluation", "approximate KL")
        await page.open(f"{address}/#text")
        await page.text("config/resolved_gin", "clip_norm = 0.5", "Environment.env_id")
        return page

    page = visit(tmp_path / "profile", look)
    assert page.errors == []
    own = (address, "data:", "blob:", "about:")
    assert [url for url in page.requests if not url.startswith(own)] == []
