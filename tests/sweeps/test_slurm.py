"""Sweeps through submitit, whose local executor stands in for Slurm."""

import pytest
from sweeping import TINY

pytest.importorskip("submitit", reason="needs the extra [slurm]")
pytestmark = pytest.mark.slow


def test_each_trial_is_a_job(tmp_path, monkeypatch):
    from sweeps.plan import load_plan
    from sweeps.scheduler import Scheduler
    from sweeps.slurm_workers import SlurmWorkers

    monkeypatch.setenv("PYTHONPATH", str(TINY.parent), prepend=":")
    file = tmp_path / "sweep.gin"
    file.write_text(
        f"Sweep.experiment = '{TINY}'\nSweep.strategy = @Grid()\nSweep.seeds = 1\n"
        "Grid.axes = {'gamma': [0.1, 0.2]}\n"
    )
    workers = SlurmWorkers(2, tmp_path / "slurm", {"timeout_min": 5}, cluster="local")
    scheduler = Scheduler(load_plan(str(file)), tmp_path / "runs", workers, lambda _: None)
    (tmp_path / "runs").mkdir()
    scheduler.check()
    scheduler.run()
    assert [progress.state for progress in scheduler.progress.values()] == ["finished"] * 2
    workers.stop()
