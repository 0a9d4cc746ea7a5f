"""Tables and conclusions, on numbers worked out by hand."""

import math

import pytest
from sweeping import TINY

from acx import config
from sweeps.folder import Progress
from sweeps.plan import load_plan
from sweeps.summary import (
    best_config,
    best_point,
    by_hyperparameter,
    by_point,
    edge_warnings,
    trial_scores,
    write_summary,
)


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "sweep.gin"
    file.write_text(
        f"Sweep.experiment = '{TINY}'\nSweep.strategy = @Grid()\nSweep.seeds = 2\n"
        "Grid.axes = {'gamma': [0.9, 0.95, 0.99], 'clip_norm': [0.5, None]}\n"
        "Sweep.bindings = {'learning_rate': 1e-3}\n"
    )
    return load_plan(str(file))


def results(plan, finals, state="finished"):
    return {
        trial.name: Progress(state if final is not None else "failed", mean_reward=final)
        for trial, final in zip(plan.trials, finals, strict=True)
    }


# gamma:                     0.9         0.9        0.95       0.95       0.99       0.99
# clip_norm:                 0.5        None         0.5       None        0.5       None
FINALS = [0.0, 2.0, 4.0, 6.0, 10.0, 12.0, 30.0, 10.0, 1.0, 1.0, 1.0, 1.0]


def test_statistics_by_hyperparameter(plan):
    table = by_hyperparameter(plan, trial_scores(plan, results(plan, FINALS)))
    row = table.loc[("gamma", "0.95")]
    assert row["mean"] == pytest.approx((10 + 12 + 30 + 10) / 4)
    assert row["iqm"] == pytest.approx((10 + 12) / 2)  # the middle half of 10, 10, 12, 30
    assert row["n"] == row["scored"] == 4
    assert row["low"] <= row["iqm"] <= row["high"]
    assert [value for name, value in table.index if name == "clip_norm"] == ["0.5", "None"]
    assert table.loc[("clip_norm", "0.5"), "mean"] == pytest.approx((0 + 2 + 10 + 12 + 1 + 1) / 6)


def test_the_best_point_has_all_its_seeds(plan):
    finals = list(FINALS)
    assert best_point(by_point(trial_scores(plan, results(plan, finals)))) == (
        "gamma=0.95,clip_norm=None"
    )
    finals[7] = None  # one of its seeds failed: the other's 30 is no reason to choose it
    points = by_point(trial_scores(plan, results(plan, finals)))
    assert best_point(points) == "gamma=0.95,clip_norm=0.5"
    assert points.loc["gamma=0.95,clip_norm=None", "scored"] == 1


def test_no_best_point_without_results(plan):
    points = by_point(trial_scores(plan, results(plan, [None] * 12)))
    assert best_point(points) is None


def test_values_at_the_edge_are_warned_of(plan):
    def warned(**values):
        return edge_warnings(plan, values)

    assert warned(gamma=0.95, clip_norm=None) == []
    assert warned(gamma=0.99, clip_norm=None) == [
        "gamma = 0.99 is the largest value tried: try larger ones"
    ]
    assert warned(gamma=0.9, clip_norm=None) == [
        "gamma = 0.9 is the smallest value tried: try smaller ones"
    ]
    # one number beside None is no range
    assert warned(gamma=0.95, clip_norm=0.5) == []


def test_the_best_configuration_is_the_experiment_with_the_points_values(plan, tmp_path):
    write_summary(tmp_path, plan, results(plan, FINALS))
    bound = config.scan([str(tmp_path / "best.gin")])
    assert config.macro(bound, "gamma") == 0.95
    assert bound.find("ClippedOptimizer", "clip_norm").value is None
    assert bound.find("OptimizerFactory", "learning_rate").value == 1e-3
    assert bound.find("Environment", "env_id").value == "toys:Noisy-v0"


def test_infinite_values_are_saved_as_gin_reads_them(plan, tmp_path):
    plan.points["gamma=0.9,clip_norm=0.5"]["clip_norm"] = math.inf
    points = by_point(trial_scores(plan, results(plan, FINALS)))
    text = best_config(plan, "gamma=0.9,clip_norm=0.5", points.iloc[0], tmp_path)
    assert text.endswith("clip_norm = 1e999\n")
