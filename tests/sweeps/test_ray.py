"""Sweeps on Ray give the results of local ones, also where a node dies or they are stopped."""

import os
import signal
import time

import pytest
from sweeping import CUBE, CUBE_TRIALS, assert_same_run, finish, run_sweep, start_sweep, table
from test_kills import assert_same_results, long, saved, undisturbed, wait_for  # noqa: F401

from sweeps.folder import status

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield found
    found.shutdown()


def test_every_trial_is_the_run_that_acx_makes_alone(alone, tmp_path):
    file, folder = tmp_path / "cube.gin", tmp_path / "runs"
    file.write_text(CUBE)
    outcome = run_sweep(file, folder, "--workers=2", "--backend=ray")
    assert outcome.code == 0, outcome.err
    for name in CUBE_TRIALS:
        assert_same_run(folder / name, alone / name)


def test_a_dead_node_costs_nothing_but_time(cluster, undisturbed, tmp_path):  # noqa: F811
    file, expected = undisturbed
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    folder = tmp_path / "ray"
    arguments = ["--workers=2", "--backend=ray", f"--address={cluster.address}"]
    driver = start_sweep(file, folder, *arguments)
    deadline = time.monotonic() + 90
    while len({path.parts[-4:-2] for path in saved(folder)}) < 2:
        assert driver.poll() is None, finish(driver).err
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster.remove_node(nodes[0], allow_graceful=False)
    outcome = finish(driver, timeout=180)
    assert outcome.code == 0, outcome.err
    attempts = sorted(int(row["attempts"]) for row in table(folder).values())
    assert attempts == [1, 1, 1, 2]
    assert_same_results(folder, expected)


def test_workers_go_where_their_resources_are(cluster):
    from sweeps.ray_workers import RayWorkers

    cluster.add_node(num_cpus=2)
    fast = cluster.add_node(num_cpus=2, resources={"fast": 2})
    workers = RayWorkers(2, cluster.address, {"fast": 1, "num_cpus": 0.5})
    places, deadline = {}, time.monotonic() + 90
    while len(places) < 2:
        assert time.monotonic() < deadline
        places |= {a.worker: a.content for a in workers.answers(1) if a.content["kind"] == "ready"}
    assert {content["node"] for content in places.values()} == {fast.node_id}
    workers.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ray=num_cpus"], "--ray=num_cpus is not of the form name=value"),
        (["--ray=num_cpus=two"], "--ray=num_cpus=two: not a number"),
        (["--ray=num_cpu=2"], "--ray=num_cpu: no node has such a resource; there are memory"),
        (["--address=127.0.0.1:1"], "can't reach Ray"),
    ],
)
def test_what_ray_can_not_give_is_said_in_one_line(tmp_path, arguments, message):
    file = tmp_path / "cube.gin"
    file.write_text(CUBE)
    outcome = run_sweep(file, tmp_path / "runs", "--backend=ray", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_stopped_trials_save_and_go_on(cluster, long, tmp_path):  # noqa: F811
    """On two nodes, and without checkpoints in between: only what is saved at the end remains."""
    file, expected = long
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    folder = tmp_path / "runs"
    arguments = ["--workers=2", "--backend=ray", f"--address={cluster.address}"]
    driver = start_sweep(file, folder, *arguments, start_new_session=True)
    names = ["gamma=0.9/seed0", "gamma=0.9/seed1"]
    wait_for(lambda: all(status(folder / name).get("env_steps") for name in names))
    os.killpg(driver.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    outcome = finish(driver)
    assert outcome.code == 130, outcome.err
    rows = table(folder)
    assert [rows[name]["state"] for name in names] == ["paused"] * 2
    assert all(0 < int(rows[name]["env_steps"]) < 30_000 for name in names)

    outcome = finish(start_sweep(file, folder, *arguments), timeout=180)
    assert outcome.code == 0, outcome.err
    for name in names:
        assert "resuming after" in (folder / name / "output.txt").read_text()
        assert_same_run(folder / name, expected / name)
    assert_same_results(folder, expected)
