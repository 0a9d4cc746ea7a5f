"""Misbehaving environments: named with their number and step, in time, no process left behind."""

import multiprocessing
import time
from typing import Literal

import numpy as np

from acx.environments.factory import Environment
from acx.errors import RunError
from acx.seeding import Stream, episode_seed
from benchmarks.faults.environments import IN_PROCESS, IN_RESET, IN_STEP
from benchmarks.faults.outcome import Outcome

Vectorization = Literal["sync", "parallel", "async"]
SECONDS = 10.0
FAULTY_SEED = episode_seed(0, Stream.TRAINING_EPISODES, 1, 0)  # environment 1, its first episode
ANYWHERE = [("step", name) for name in IN_STEP] + [("reset", name) for name in IN_RESET]
ELSEWHERE = [*ANYWHERE, *(("step", name) for name in IN_PROCESS)]  # than in this process
CASES: dict[Vectorization, list[tuple[str, str]]] = {
    "sync": ANYWHERE,
    "parallel": ELSEWHERE,
    "async": ELSEWHERE,
}


def check(vectorization: Vectorization, every: int = 1) -> Outcome:
    """Try every kind of fault, or one of `every`."""
    outcome = Outcome(
        "environments", vectorization, f"named with number and step in {SECONDS:.0f} s, none left"
    )
    started = time.monotonic()
    for call, fault in CASES[vectorization][::every]:
        outcome.count(_problems(vectorization, call, fault), f"{fault} in {call}")
    outcome.seconds = time.monotonic() - started
    return outcome


def _problems(vectorization: Vectorization, call: str, fault: str) -> list[str]:
    expected = (IN_RESET if call == "reset" else IN_STEP | IN_PROCESS)[fault][1]
    where = (
        f"reset(seed={FAULTY_SEED})"
        if call == "reset"
        else f"step 2 of the episode with seed {FAULTY_SEED}"
    )
    started = time.monotonic()
    try:
        _step(vectorization, call, fault)
        message = ""
    except RunError as error:
        message = str(error)
    except BaseException as error:
        return [f"{type(error).__name__} got through: {error}"]
    seconds = time.monotonic() - started
    named = ["environment 1"] if fault in IN_PROCESS else ["environment 1", where]
    problems = [
        f"{text!r} is not in {message!r}" for text in (*named, expected) if text not in message
    ]
    if seconds > SECONDS:
        problems.append(f"took {seconds:.1f} s")
    left = multiprocessing.active_children()
    return [*problems, *(f"left process {process.pid} behind" for process in left)]


def _step(vectorization: Vectorization, call: str, fault: str) -> None:
    options = {"fault": fault, "call": call, "episode_seed": FAULTY_SEED}
    environment = Environment(
        "benchmarks.faults.environments:Misbehaving-v0", 2, vectorization, options, step_timeout=1.0
    )
    environments = environment.make(2, lambda i, e: episode_seed(0, Stream.TRAINING_EPISODES, i, e))
    try:
        environments.reset()
        for _ in range(3):
            environments.step(np.zeros(2, int))
    finally:
        environments.close()
