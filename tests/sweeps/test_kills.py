"""Sweeps whose workers and drivers are killed end like undisturbed ones."""

import random
import signal
import time

import psutil
import pytest
from sweeping import TINY, assert_same_run, finish, start_sweep, table

from sweeps.folder import status

SLOW = f"""
Sweep.experiment = '{TINY}'
Sweep.strategy = @Grid()
Sweep.seeds = 2
Grid.axes = {{'gamma': [0.9, 0.99]}}
Sweep.bindings = {{
    'Experiment.total_steps': 20_000, 'Experiment.checkpoint_seconds': 0.05,
    'Experiment.log_every': 100,
}}
"""


def swept(base, text, workers):
    """A sweep run to its end: its file, and the folder in which it ran."""
    file = base / "sweep.gin"
    file.write_text(text)
    outcome = finish(start_sweep(file, base / "runs", f"--workers={workers}"))
    assert outcome.code == 0, outcome.err
    return file, base / "runs"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("kills"), SLOW, workers=1)


# Long enough to be stopped in the middle, and without checkpoints until then.
LONG = (
    SLOW.replace("20_000", "30_000")
    .replace("checkpoint_seconds': 0.05", "checkpoint_seconds': 1e6")
    .replace(", 0.99", "")
)


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    """A sweep of two long trials, and the folder in which it ran undisturbed."""
    return swept(tmp_path_factory.mktemp("long"), LONG, workers=2)


def workers_of(process):
    """The worker processes of a driver."""
    try:
        found = psutil.Process(process.pid).children()
        return [child for child in found if "sweeps.worker" in child.cmdline()]
    except psutil.Error:
        return []


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def saved(folder):
    return list(folder.glob("*/*/checkpoints/step-*.ckpt"))


def assert_same_results(folder, expected):
    for name in ("points.csv", "hyperparameters.csv", "best.gin"):
        assert (folder / name).read_text() == (expected / name).read_text(), name


def test_kills_and_interruptions_cost_nothing_but_time(undisturbed, tmp_path):
    file, expected = undisturbed
    folder = tmp_path / "runs"

    driver = start_sweep(file, folder, "--workers=1")
    wait_for(lambda: saved(folder))
    workers_of(driver)[0].kill()
    refused = finish(start_sweep(file, folder))
    assert refused.code == 2
    assert f"in use by the sweep of process {driver.pid}" in refused.err
    wait_for(lambda: len(list(folder.glob("*/*/config.gin"))) == 2)
    driver.send_signal(signal.SIGINT)
    outcome = finish(driver)
    assert outcome.code == 130, outcome.err
    rows = table(folder)
    assert rows["gamma=0.9/seed0"]["attempts"] == "2"
    assert rows["gamma=0.9/seed0"]["state"] == "finished"
    log = (folder / "gamma=0.9" / "seed0" / "output.txt").read_text()
    assert "resuming after" in log
    assert rows["gamma=0.9/seed1"]["state"] in ("paused", "waiting")
    assert rows["gamma=0.99/seed1"]["state"] == "waiting"

    driver = start_sweep(file, folder, "--workers=1")
    wait_for(lambda: list((folder / "gamma=0.99/seed0").glob("checkpoints/step-*.ckpt")))
    (worker,) = workers_of(driver)
    driver.kill()
    driver.communicate()
    finished = {name: row for name, row in table(folder).items() if row["state"] == "finished"}
    assert len(finished) >= 2

    outcome = finish(start_sweep(file, folder, "--workers=1"))  # waits until the worker has saved
    assert outcome.code == 0, outcome.err
    assert not worker.is_running()
    assert finished.items() <= table(folder).items()  # none twice
    assert_same_results(folder, expected)


def test_T62_a_trial_that_always_dies_fails_alone(tmp_path):
    """The toy environment ends its process; the other trial's is another one."""
    file = tmp_path / "deadly.gin"
    file.write_text(
        f"Sweep.experiment = '{TINY}'\nSweep.strategy = @Grid()\nSweep.seeds = 1\n"
        "Sweep.retries = 0\n"
        "Grid.axes = {'Environment.env_id': ['toys:Noisy-v0', 'deadly:Deadly-v0']}\n"
    )
    (tmp_path / "deadly.py").write_text(
        "import os, gymnasium, toys\n"
        "class Deadly(toys.Noisy):\n"
        "    def step(self, action):\n"
        "        print('out of luck', flush=True)\n"
        "        os._exit(9)\n"
        "gymnasium.register('Deadly-v0', entry_point=Deadly)\n"
    )
    outcome = finish(start_sweep(file, tmp_path / "runs", "--workers=1"))
    rows = list(table(tmp_path / "runs").values())
    assert outcome.code == 3
    assert "1 of 2 trials failed" in outcome.err
    assert [row["state"] for row in rows] == ["finished", "failed"]
    assert rows[1]["exit_code"] == "9"
    assert "its process died: exit code 9" in rows[1]["message"]
    assert "out of luck" in rows[1]["message"]


def what_finished(folder):
    """Of each finished trial the bytes of what it wrote: none may change any more."""
    found = {}
    for path in folder.glob("*/seed*"):
        if status(path).get("state") == "finished":
            files = [path / "status.json", path / "metrics.csv", *path.glob("checkpoints/*")]
            found[str(path.relative_to(folder))] = [file.read_bytes() for file in files]
    return found


@pytest.mark.slow
def test_T62_twenty_random_kills(tmp_path):
    """Of the driver, after which the same command goes on, or of one of its workers."""
    file = tmp_path / "many.gin"
    file.write_text(SLOW.replace("seeds = 2", "seeds = 3").replace("0.99", "0.95, 0.99"))
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "runs"
    outcome = finish(start_sweep(file, undisturbed, "--workers=2"))
    assert outcome.code == 0, outcome.err

    generator, kills, finished = random.Random(0), {"driver": 0, "worker": 0}, {}
    while True:
        driver = start_sweep(file, folder, "--workers=2")
        while sum(kills.values()) < 20 and driver.poll() is None:
            time.sleep(generator.uniform(0.5, 4))
            workers = workers_of(driver)
            victim = "worker" if workers and generator.random() < 0.7 else "driver"
            (driver if victim == "driver" else generator.choice(workers)).kill()
            kills[victim] += 1
        outcome = finish(driver)
        before, finished = finished, what_finished(folder)
        assert before.items() <= finished.items()  # none twice
        if outcome.code == 0:
            break
        # 3: a trial died too often, or the workers did before they were ready.
        assert outcome.code in (-signal.SIGKILL, 3), outcome.err
    assert sum(kills.values()) == 20  # or it was all done too early
    assert min(kills.values()) >= 4
    assert len(finished) == 9
    assert_same_results(folder, undisturbed)
    for name in finished:
        assert_same_run(folder / name, undisturbed / name)

    again = finish(start_sweep(file, folder, "--workers=2"))
    assert again.code == 0
    assert what_finished(folder) == finished
