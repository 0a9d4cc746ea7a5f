"""Sweeps through submitit, whose local executor stands in for Slurm."""

import pytest
from sweeping import TINY, assert_same_run
from test_kills import assert_same_results, long  # noqa: F401

from sweeps.folder import status
from sweeps.plan import load_plan
from sweeps.scheduler import Scheduler
from sweeps.summary import write_summary

submitit = pytest.importorskip("submitit", reason="needs the extra [slurm]")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _slurm(monkeypatch):
    """Jobs find the toys, and are canceled as by scancel: SIGTERM, then time to save."""
    monkeypatch.setenv("PYTHONPATH", str(TINY.parent), prepend=":")
    monkeypatch.setattr(
        submitit.LocalJob, "cancel", lambda job, check=True: job._process.terminate()
    )


def scheduler_of(file, folder, look=lambda _: None):
    from sweeps.slurm_workers import SlurmWorkers

    folder.mkdir(exist_ok=True)
    workers = SlurmWorkers(2, folder / "slurm", {"timeout_min": 5}, cluster="local")
    return Scheduler(load_plan(str(file)), folder, workers, look)


def test_each_trial_is_a_job(tmp_path):
    file = tmp_path / "sweep.gin"
    file.write_text(
        f"Sweep.experiment = '{TINY}'\nSweep.strategy = @Grid()\nSweep.seeds = 1\n"
        "Grid.axes = {'gamma': [0.1, 0.2]}\n"
    )
    scheduler = scheduler_of(file, tmp_path / "runs")
    scheduler.check()
    scheduler.run()
    assert [progress.state for progress in scheduler.progress.values()] == ["finished"] * 2
    scheduler.workers.stop()


def test_canceled_jobs_save_and_go_on(long, tmp_path):  # noqa: F811
    file, expected = long
    folder = tmp_path / "runs"

    def stop_once_two_train(scheduler):
        running = scheduler.running.values()
        steps = [status(folder / trial.name).get("env_steps") for trial in running]
        scheduler.stop_requested = len(steps) == 2 and all(steps)

    stopped = scheduler_of(file, folder, stop_once_two_train)
    stopped.run()
    stopped.workers.stop()
    stopped.settle()
    assert [found.state for found in stopped.progress.values()] == ["paused"] * 2
    assert all(0 < found.env_steps < 30_000 for found in stopped.progress.values())

    scheduler = scheduler_of(file, folder)
    scheduler.run()
    scheduler.workers.stop()
    write_summary(folder, scheduler.plan, scheduler.progress)
    for name in scheduler.progress:
        assert_same_run(folder / name, expected / name)
    assert_same_results(folder, expected)
