"""Sweeps on Ray give the results of local ones, also where a node dies in the middle."""

import time

import pytest
from sweeping import finish, start_sweep, table
from test_kills import SLOW

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield found
    found.shutdown()


def test_a_dead_node_costs_nothing_but_time(cluster, tmp_path):
    file = tmp_path / "slow.gin"
    file.write_text(SLOW)
    local = finish(start_sweep(file, tmp_path / "local", "--workers=1"))
    assert local.code == 0, local.err

    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    folder = tmp_path / "ray"
    arguments = ["--workers=2", "--backend=ray", f"--address={cluster.address}"]
    driver = start_sweep(file, folder, *arguments)
    deadline = time.monotonic() + 90
    while len({path.parts[-4:-2] for path in folder.glob("*/*/checkpoints/step-*.ckpt")}) < 2:
        assert driver.poll() is None, finish(driver).err
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster.remove_node(nodes[0], allow_graceful=False)
    outcome = finish(driver, timeout=180)
    assert outcome.code == 0, outcome.err
    attempts = sorted(int(row["attempts"]) for row in table(folder).values())
    assert attempts == [1, 1, 1, 2]
    for name in ("points.csv", "hyperparameters.csv", "best.gin"):
        assert (folder / name).read_text() == (tmp_path / "local" / name).read_text(), name
