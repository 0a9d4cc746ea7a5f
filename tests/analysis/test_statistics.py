import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from analysis import statistics

ORACLE = json.loads((Path(__file__).parent / "rliable_oracle.json").read_text())
POINT = {
    "interquartile_mean": statistics.interquartile_mean,
    "mean": statistics.mean,
    "median": statistics.median,
    "optimality_gap": statistics.optimality_gap,
}


@pytest.mark.parametrize("name", POINT)
@pytest.mark.parametrize("scores", ["first", "second", "uneven"])
def test_estimates_equal_those_of_rliable(scores, name):
    oracle = ORACLE[scores]
    assert POINT[name](np.array(oracle["scores"])) == pytest.approx(oracle[name], abs=1e-6)


@pytest.mark.parametrize("name", POINT)
def test_intervals_equal_those_of_rliable_for_the_same_draws(name):
    scores, indices = np.array(ORACLE["first"]["scores"]), np.array(ORACLE["indices"])
    interval = statistics.bootstrap_interval(scores, POINT[name], indices)
    oracle = ORACLE["intervals"][name.replace("interquartile_mean", "iqm")]
    assert interval == pytest.approx(oracle, abs=1e-6)


def test_profile_and_improvement_equal_those_of_rliable():
    first, second = (np.array(ORACLE[name]["scores"]) for name in ("first", "second"))
    profile = statistics.performance_profile(first, np.array(ORACLE["profile"]["thresholds"]))
    np.testing.assert_allclose(profile, ORACLE["profile"]["first"], atol=1e-6)
    chance = statistics.probability_of_improvement(first, second)
    assert chance == pytest.approx(ORACLE["probability_of_improvement"], abs=1e-6)


def test_estimates_worked_out_by_hand():
    scores = np.array([[0.0, 10.0], [1.0, 2.0], [2.0, 3.0], [9.0, 4.0]])
    # sorted 0 1 2 2 3 4 9 10: the middle four are 2 2 3 4
    assert statistics.interquartile_mean(scores) == 2.75
    assert statistics.mean(scores) == 31 / 8
    assert statistics.median(scores) == (12 / 4 + 19 / 4) / 2
    assert statistics.optimality_gap(scores, target=4.0) == 4 - (0 + 4 + 1 + 2 + 2 + 3 + 4 + 4) / 8
    np.testing.assert_array_equal(
        statistics.performance_profile(scores, np.array([-1.0, 2.0, 9.5])), [1.0, 0.5, 0.125]
    )
    a, b = np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]])
    assert statistics.probability_of_improvement(a, b) == (0.5 + 0 + 1 + 1) / 4


def test_the_interquartile_mean_ignores_one_bad_run_of_four():
    assert statistics.interquartile_mean(np.array([[-1e9], [1.0], [2.0], [1e9]])) == 1.5


SCORES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e3, 1e3))


@settings(deadline=None)
@given(SCORES, st.floats(-10, 10), st.floats(0.1, 10))
def test_estimates_move_with_their_scores(scores, shift, scale):
    for estimate in (statistics.mean, statistics.median, statistics.interquartile_mean):
        moved = estimate(scores * scale + shift)
        assert moved == pytest.approx(estimate(scores) * scale + shift, abs=1e-6)
        assert scores.min() - 1e-9 <= estimate(scores) <= scores.max() + 1e-9


@settings(deadline=None)
@given(SCORES, SCORES)
def test_chances_of_improvement_add_up_to_one(first, second):
    tasks = min(first.shape[1], second.shape[1])
    first, second = first[:, :tasks], second[:, :tasks]
    forth = statistics.probability_of_improvement(first, second)
    assert forth + statistics.probability_of_improvement(second, first) == pytest.approx(1)


def test_a_batch_gives_what_its_members_give():
    batch = np.random.default_rng(0).normal(size=(5, 8, 3))
    for estimate in POINT.values():
        np.testing.assert_allclose(estimate(batch), [estimate(scores) for scores in batch])


def test_draws_are_made_for_each_task_on_its_own():
    indices = statistics.stratified_indices(np.random.default_rng(0), 500, 4, 2)
    assert indices.shape == (500, 4, 2)
    assert set(np.unique(indices)) == {0, 1, 2, 3}
    assert abs(np.corrcoef(indices[..., 0].ravel(), indices[..., 1].ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("estimate", [statistics.mean, statistics.interquartile_mean])
def test_intervals_cover_the_truth_as_often_as_they_say(estimate):
    """400 experiments of 40 runs on two tasks: 95 % intervals, within three standard errors."""
    generator = np.random.default_rng(11)
    indices = statistics.stratified_indices(generator, 400, 40, 2)
    hits = 0
    for _ in range(400):
        scores = generator.normal(0.5, 0.2, (40, 2))
        low, high = statistics.bootstrap_interval(scores, estimate, indices)
        hits += low <= 0.5 <= high
    assert 0.95 - 3 * 0.011 <= hits / 400 <= 0.95 + 3 * 0.011


def test_area_and_threshold_on_a_straight_line():
    steps, values = np.array([0.0, 100.0, 200.0]), np.array([0.0, 50.0, 100.0])
    assert statistics.area_under_curve(steps, values) == 50.0
    assert statistics.steps_to_threshold(steps, values, 75.0) == 150.0
    assert statistics.steps_to_threshold(steps, values, 0.0) == 0.0
    assert np.isnan(statistics.steps_to_threshold(steps, values, 101.0))
    assert np.isnan(statistics.area_under_curve(steps[:1], values[:1]))
    uneven = statistics.area_under_curve(np.array([0.0, 10.0, 40.0]), np.array([1.0, 1.0, 3.0]))
    assert uneven == (10 + 60) / 40
