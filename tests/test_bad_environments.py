"""Environments that misbehave stop the run and are named: which one, when, and what it did."""

import functools
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny
from commands import TINY, group_exists, process_exists, run_here, wait_for

from acx.environments import parallel
from acx.environments.factory import Environment
from acx.errors import RunError
from acx.seeding import Stream, episode_seed

SECOND = episode_seed(0, Stream.TRAINING_EPISODES, 1, 0)  # the first episode of environment 1


PROCESSES = ("async", "parallel")  # one for each environment; one a core


def faulty(fault, at=2, seed=SECOND):
    return {"fault": fault, "at": at, "seed": seed}


def training(vectorization, fault, step_timeout=60.0):
    """Two training environments, the second of which misbehaves in its second step."""
    environment = Environment(
        "toys:Faulty-v0", 2, vectorization, faulty(fault), step_timeout=step_timeout
    )
    return environment.make(2, lambda i, e: episode_seed(0, Stream.TRAINING_EPISODES, i, e))


def step_until_it_fails(environments):
    try:
        environments.reset()
        for _ in range(5):
            environments.step(np.zeros(environments.num_envs, int))
    finally:
        environments.close()


MESSAGES = {
    "raises": "raised ValueError: the toy broke",
    "reward None": "returned the reward None: it must be one number",
    "reward string": "returned the reward '3': it must be one number",
    "reward array": r"returned the reward array\(\[1.5\]\)",
    "reward complex": "returned the reward 1j",
    "terminated None": "returned terminated = None: it must be a bool",
    "truncated string": "returned truncated = 'no': it must be a bool",
    "observation None": "returned the observation None: not an array",
    "observation list": r"returned the observation \[2.0\]: not an array",
    "observation shape": r"returned an observation of shape \(5,\); its space says \(1,\)",
    "observation dtype": "returned an observation of dtype complex64; its space says float32",
    "four values": r"returned \(array.*, not \(observation, reward",
    "nothing": "returned None, not",
}


@pytest.mark.parametrize(("fault", "message"), MESSAGES.items(), ids=MESSAGES)
def test_T38_a_fault_is_named_with_environment_step_and_seed(fault, message):
    with pytest.raises(
        RunError, match=f"environment 1, step 2 of the episode with seed {SECOND}: {message}"
    ):
        step_until_it_fails(training("sync", fault))


@pytest.mark.parametrize("fault", ["raises", "reward None", "observation shape"])
@pytest.mark.parametrize("vectorization", PROCESSES)
def test_T76_a_fault_in_a_worker_process_is_named_alike_and_no_process_is_left(
    vectorization, fault
):
    with pytest.raises(
        RunError,
        match=f"environment 1, step 2 of the episode with seed {SECOND}: {MESSAGES[fault]}",
    ):
        step_until_it_fails(training(vectorization, fault))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("vectorization", PROCESSES)
def test_T76_a_worker_that_dies_is_named_in_time(vectorization):
    started = time.monotonic()
    with pytest.raises(RunError, match=r"process of environment 1 died \(exit code 3\)"):
        step_until_it_fails(training(vectorization, "exits"))
    assert time.monotonic() - started < 10
    assert multiprocessing.active_children() == []


def test_T76_a_worker_of_several_environments_that_dies_is_named_with_all_of_them():
    options = faulty("exits", seed=episode_seed(0, Stream.TRAINING_EPISODES, 4, 0))
    environments = Environment("toys:Faulty-v0", 5, "parallel", options).make(
        5, lambda i, e: episode_seed(0, Stream.TRAINING_EPISODES, i, e)
    )
    # Two processes share five as three, which this one steps, and two.
    with pytest.raises(RunError, match=r"process of environment 3, 4 died \(exit code 3\)"):
        step_until_it_fails(environments)


@pytest.mark.parametrize("vectorization", PROCESSES)
def test_T76_a_worker_that_hangs_is_named_in_time(vectorization):
    started = time.monotonic()
    with pytest.raises(RunError, match="environment 1 did not answer in time"):
        step_until_it_fails(training(vectorization, "hangs", step_timeout=0.5))
    assert time.monotonic() - started < 10
    assert multiprocessing.active_children() == []


def test_T76_an_error_is_told_even_if_its_process_is_seen_dead_first(monkeypatch):
    tried, looks = parallel._acquired, itertools.cycle((False, True))

    def late(semaphore, seconds):
        """As on a busy machine: who is waited for has failed and ended before the first look."""
        time.sleep(0.2)
        return next(looks) and tried(semaphore, seconds)

    environments = training("parallel", "raises")
    monkeypatch.setattr(parallel, "_acquired", late)
    with pytest.raises(RunError, match="raised ValueError: the toy broke"):
        step_until_it_fails(environments)


class Unmakable:
    """A wrapper that only the process of the tests can use."""

    def __new__(cls, env):
        if multiprocessing.parent_process() is not None:
            raise OSError("no port is free")
        return env


def test_an_environment_that_a_process_cannot_make_is_named():
    environment = Environment("CartPole-v1", 2, "parallel", wrappers=[Unmakable])
    with pytest.raises(RunError, match="environment 1: can't make CartPole-v1: no port is free"):
        environment.make(2, lambda i, e: 0)
    assert multiprocessing.active_children() == []


THREE = """
import multiprocessing, time
from acx.environments import parallel
from acx.environments.factory import Environment

parallel.available_cores = lambda: 3
environments = Environment("CartPole-v1", 3, "parallel").make(3, lambda i, e: i)
print(*sorted(process.pid for process in multiprocessing.active_children()), flush=True)
time.sleep(60)
"""


def test_T76_a_process_of_a_killed_run_ends_without_waiting_for_the_others():
    command = [sys.executable, "-c", THREE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        first, last = map(int, process.stdout.readline().split())
        os.kill(last, signal.SIGSTOP)
        try:
            process.kill()
            process.wait()
            wait_for(lambda: not process_exists(first))
        finally:
            os.kill(last, signal.SIGKILL)
    wait_for(lambda: not group_exists(process.pid))


@pytest.fixture
def acx(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return functools.partial(
        run_here,
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        f"--run_dir={tmp_path / 'run'}",
        "--gin_bindings=Environment.env_id = 'toys:Faulty-v0'",
    )


def test_an_environment_that_fails_at_once_is_found_before_there_is_a_run_folder(acx, tmp_path):
    options = faulty("reward nan", at=1, seed=None)
    outcome = acx(f"--gin_bindings=Environment.env_options = {options!r}")
    assert outcome.code == 3
    [line] = outcome.err.strip().splitlines()
    assert "toys:Faulty-v0 returned the reward nan in step 1" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("vectorization", ["sync", "parallel", "async"])
def test_T38_T76_a_run_that_had_to_stop_says_why_and_exits_with_3(acx, tmp_path, vectorization):
    options = faulty("reward None", at=12)
    outcome = acx(
        f"--gin_bindings=Environment.env_options = {options!r}",
        f"--gin_bindings=Environment.vectorization = '{vectorization}'",
    )
    assert outcome.code == 3
    assert f"environment 1, step 12 of the episode with seed {SECOND}" in outcome.err
    assert "Traceback" not in outcome.out + outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    status = (tmp_path / "run" / "status.json").read_text()
    assert '"failed"' in status
    assert "step 12" in status
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("vectorization", PROCESSES)
def test_T76_an_exception_in_the_learner_leaves_no_worker_process(vectorization):
    experiment = tiny.experiment(
        vectorization=vectorization,
        env_options={"offset": 1e3},
        hidden_sizes=(),
        actor_optimizer=tiny.optimizer("sgd", 1e38, None),
        epochs=3,
    )
    experiment.build()
    with pytest.raises(RunError, match="not finite"):
        experiment.run()
    assert multiprocessing.active_children() == []
