"""The table of learning goals: what counts as met, and what is said of a miss."""

import json

import numpy as np
import pytest

from benchmarks import ablation, learning, learning_table
from benchmarks.learning_table import GOALS, Goal, iqm_at, median_steps


def result(finals, curves=None, total_steps=1000):
    curves = curves or [[[500, final], [1000, final]] for final in finals]
    seeds = {
        str(i): {"final": final, "std": 0.0, "curve": curve, "seconds": 1.0}
        for i, (final, curve) in enumerate(zip(finals, curves, strict=True))
    }
    return {"total_steps": total_steps, "seeds": seeds, "config": []}


@pytest.mark.parametrize(
    ("goal", "missed"),
    [
        (Goal(1000, iqm=2.5, worst=1, seeds=4), []),
        (Goal(1000, iqm=3.0, seeds=4), ["IQM 0.5 short"]),
        (Goal(1000, worst=2, seeds=4), ["worst 1.0 short"]),
        (Goal(1000, iqm=2.5, seeds=5), ["4 of 5 seeds"]),
        (Goal(999, iqm=2.5, seeds=4), ["1,000 of 999 steps"]),
        (Goal(1000, seeds=4, along=(600, 2.5)), []),
        (Goal(1000, seeds=4, along=(600, 2.6)), ["IQM at 600 0.1 short"]),
        (Goal(1000, seeds=4, along=(400, 2.5)), ["IQM at 400 not measured"]),
        (Goal(1000, seeds=4, solved=(2, 500)), []),
        (Goal(1000, seeds=4, solved=(4, 1000)), ["4 after 1,000 steps"]),
    ],
)
def test_a_goal_says_what_is_missed(goal, missed):
    # The interquartile mean of 1, 2, 3, 4 is 2.5.
    assert goal.misses(result([1.0, 2.0, 3.0, 4.0])) == missed


def test_the_median_seed_counts_from_its_first_evaluation_at_the_threshold():
    curves = [[[10, 0], [20, 5], [30, 0]], [[10, 5], [20, 5], [30, 5]], [[10, 0], [20, 0], [30, 0]]]
    found = result([0, 5, 0], curves)
    assert median_steps(found, 5) == 20
    assert median_steps(found, 6) == np.inf
    four = result([0] * 4, [[[10, 0], [20, v]] for v in (1, 2, 3, 10)])
    assert iqm_at(four, 25) == 2.5


def test_every_goal_has_an_experiment_and_every_row_says_whether_it_is_met(tmp_path, monkeypatch):
    for name in GOALS:
        assert (learning_table.README.parent / f"experiments/{name}.gin").exists()
    monkeypatch.setattr(learning_table, "RESULTS", tmp_path)
    (tmp_path / "hopper.json").write_text(json.dumps(result([3000.0] * 5, total_steps=1_000_000)))
    (tmp_path / "ant.json").write_text(json.dumps(result([2000.0] * 5, total_steps=1_000_000)))
    met = {row[0]: row[-1] for row in learning_table.rows(["hopper", "ant", "walker2d"])}
    assert met == {"hopper": "yes", "ant": "no: IQM 800.0 short", "walker2d": "not measured"}
    assert learning_table.print_table(["hopper"]) == 0
    assert learning_table.print_table(["hopper", "ant"]) == 1
    assert learning_table.print_table(["hopper", "walker2d"]) == 1


def test_a_campaign_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_table, "RESULTS", tmp_path)
    settings = learning.settings_of("cartpole", [], points=2, episodes=3)
    resolved = learning.configuration("cartpole", [*settings, "seed = 7"])
    entry = {"final": 1.0, "std": 0.0, "curve": [], "seconds": 1.0}
    learning.record("cartpole", 1, {**entry, "config": resolved, "total_steps": 5}, save=True)
    left = [seed for _, seed, _ in learning.jobs("cartpole", settings, 3, fresh=False)]
    assert left == [0, 2]
    assert len(list(learning.jobs("cartpole", settings, 3, fresh=True))) == 3
    changed = [*settings, "gamma = 0.5"]
    assert len(list(learning.jobs("cartpole", changed, 3, fresh=False))) == 3


def test_an_ablation_changes_what_the_tuned_file_does_not_have_already():
    cartpole = dict(ablation.changes("cartpole"))
    assert "normalized observations" in cartpole
    assert "raw observations" not in cartpole  # they are
    assert "tanh-squashed Gaussian" not in cartpole  # its actions are discrete
    pendulum = dict(ablation.changes("pendulum"))
    assert "GaussianTanhHead.gain = 1.0" in pendulum["policy output gain 1"]
