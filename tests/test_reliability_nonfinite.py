"""NaN and infinity: no weight changes by them, whichever way the run goes on."""

import numpy as np
import pytest
import tiny

from acx.errors import NonFiniteError, RunError
from benchmarks.faults import nonfinite
from benchmarks.faults.injection import PoisonedCriticLoss, PoisonedSurrogate
from benchmarks.faults.nonfinite import ITERATIONS, ROWS, Case, Injector

FEW = nonfinite.cases()[::13]


def test_there_are_enough_places():
    assert len(nonfinite.cases()) >= 50


@pytest.fixture(scope="module")
def injector(tmp_path_factory):
    return Injector(tmp_path_factory.mktemp("poison") / "poisoned.gin")


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_T39_halt_names_the_place_and_keeps_the_weights(injector, case):
    assert nonfinite.halt_problems(case, injector.run(case, "halt", ITERATIONS * ROWS)) == []


@pytest.mark.parametrize("policy", ["skip", "rollback"])
@pytest.mark.parametrize("case", FEW[::3], ids=lambda case: case.name)
def test_T39_the_run_goes_on_without_the_iteration(injector, case, policy):
    run = injector.run(case, policy, 2 * ITERATIONS * ROWS)
    assert nonfinite.recovery_problems(case, run) == []


HEALTHY = Case("nothing", [], [], 0)
CRITIC = Case(
    "critic",
    ["PoisonedCriticLoss.first = 32", "PoisonedCriticLoss.last = 32"],
    ["the critic's"],
    2,
)


def test_what_would_be_broken_promises_are_found(injector):
    healthy = injector.run(HEALTHY, "halt", ITERATIONS * ROWS)
    assert nonfinite.halt_problems(CRITIC, healthy) == ["ended with None"]
    halted = injector.run(CRITIC, "halt", ITERATIONS * ROWS)
    assert nonfinite.recovery_problems(CRITIC, halted)[0].startswith("ended with NonFiniteError")
    wrong_place = Case("", [], ["environment 1"], 1)
    assert len(nonfinite.halt_problems(wrong_place, halted)) >= 2


@pytest.mark.parametrize("policy", ["skip", "rollback"])
def test_a_run_that_can_not_be_helped_ends(injector, policy):
    always = Case("always", ["PoisonedSurrogate.last = 1_000_000"], [], 0)
    run = injector.run(always, policy, 100 * ROWS)
    assert isinstance(run.error, RunError)
    assert "10 iterations in a row" in str(run.error)
    assert len(run.said) == 9


@pytest.mark.parametrize("fault", [PoisonedSurrogate, PoisonedCriticLoss])
@pytest.mark.parametrize("minibatch_size", [None, 8], ids=["one program", "two threads"])
def test_when_one_of_actor_and_critic_fails_neither_is_updated(fault, minibatch_size):
    """The other one's update of the same iteration was fine, and is taken back."""
    poison = fault("loss", "nan", 16, 16)
    experiment = tiny.experiment(
        objective=poison if fault is PoisonedSurrogate else PoisonedSurrogate(),
        critic_loss=poison if fault is PoisonedCriticLoss else PoisonedCriticLoss(),
        iterations=3,
        minibatch_size=minibatch_size,
    )
    experiment.checkpoint_seconds = 0.0
    experiment.build()
    states = []
    with pytest.raises(NonFiniteError):
        experiment.run([], lambda steps, state: states.append(state))
    [saved] = states
    learner = experiment.learner.state()
    for name in (
        "actor/0",
        "actor/1",
        "critic/0",
        "critic/1",
        "actor/optimizer_steps",
        "iterations",
    ):
        np.testing.assert_array_equal(learner[name], saved[f"learner/{name}"], err_msg=name)


def test_a_rolled_back_run_resumes_exactly(injector):
    """The snapshots are part of the checkpoint."""
    late = Case("", ["PoisonedCriticLoss.first = 240", "PoisonedCriticLoss.last = 260"], [], 0)
    straight = injector.run(late, "rollback", 25 * ROWS)
    assert straight.error is None
    assert len(straight.said) >= 1
    half = straight.states[11]
    assert int(half["collector/env_steps"]) == 12 * ROWS
    resumed = injector.run(late, "rollback", 25 * ROWS, half)
    assert resumed.states[-1].keys() == straight.states[-1].keys()
    for name, array in straight.states[-1].items():
        np.testing.assert_array_equal(resumed.states[-1][name], array, err_msg=name)


def test_rolling_back_returns_to_older_weights_than_skipping(injector):
    late = Case("", ["PoisonedCriticLoss.first = 400", "PoisonedCriticLoss.last = 400"], [], 0)
    skipped = injector.run(late, "skip", 27 * ROWS).scalars[-1]["time/iterations"]
    rolled_back = injector.run(late, "rollback", 27 * ROWS).scalars[-1]["time/iterations"]
    assert skipped == 26  # of 27
    assert rolled_back < skipped - 5
