"""Which points strategies choose."""

import numpy as np
import pytest

from acx.errors import ConfigError
from sweeps.strategies import (
    Grid,
    Points,
    RandomSearch,
    Stage,
    SuccessiveHalving,
    draw,
)


def test_grid_is_the_whole_product_in_order():
    points = Grid(axes={"gamma": [0.9, 0.99], "clip_norm": [0.5, None, 1]}).points()
    assert [tuple(point.values()) for point in points] == [
        (0.9, 0.5),
        (0.9, None),
        (0.9, 1),
        (0.99, 0.5),
        (0.99, None),
        (0.99, 1),
    ]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, "no axis"),
        ({"gamma": 0.9}, "needs a list"),
        ({"gamma": []}, "needs a list"),
        ({"gamma": [0.9, 0.9]}, "0.9 twice"),
        ({"seed": [0, 1]}, "Sweep.seeds"),
        ({"Experiment.seed": [0, 1]}, "Sweep.seeds"),
        ({"gamma": [float("nan")]}, "NaN"),
    ],
)
def test_grids_that_make_no_sense(axes, message):
    with pytest.raises(ConfigError, match=message):
        Grid(axes=axes)


def test_equal_numbers_of_different_type_are_different_values():
    assert len(Grid(axes={"x": [1, 1.0, True]}).points()) == 3


def test_points_are_taken_as_they_are():
    points = Points(points=[{"a": 1, "b": 2}, {"b": 4, "a": 3}]).points()
    assert [list(point.items()) for point in points] == [
        [("a", 1), ("b", 2)],
        [("a", 3), ("b", 4)],
    ]
    with pytest.raises(ConfigError, match=r"point 2 .* b"):
        Points(points=[{"a": 1, "b": 2}, {"a": 1}])


SPACE = {
    "learning_rate": ("log_uniform", 1e-4, 1e-2),
    "gamma": ("uniform", 0.9, 1.0),
    "epochs": ("integer", 1, 3),
    "clip_norm": ("choice", [0.5, None]),
}


def test_random_points_are_python_values_within_bounds():
    for point in RandomSearch(space=SPACE, count=200).points():
        assert type(point["learning_rate"]) is float
        assert 1e-4 <= point["learning_rate"] <= 1e-2
        assert type(point["gamma"]) is float
        assert 0.9 <= point["gamma"] <= 1.0
        assert type(point["epochs"]) is int
        assert point["epochs"] in (1, 2, 3)
        assert point["clip_norm"] in (0.5, None)


def test_random_points_depend_on_the_seed_and_begin_alike():
    few = RandomSearch(space=SPACE, count=3, seed=1).points()
    assert RandomSearch(space=SPACE, count=9, seed=1).points()[:3] == few
    assert RandomSearch(space=SPACE, count=3, seed=2).points() != few
    assert len({point["gamma"] for point in few}) == 3


def test_distributions():
    generator = np.random.default_rng(0)
    logs = np.log10([draw(("log_uniform", 1e-4, 1e-2), generator) for _ in range(4000)])
    assert abs(logs.mean() + 3) < 0.05  # half of the draws lie below the geometric mean
    assert abs((logs < -3).mean() - 0.5) < 0.03
    counts = np.bincount([draw(("integer", 0, 2), generator) for _ in range(3000)])
    assert len(counts) == 3
    assert counts.min() > 900


@pytest.mark.parametrize(
    "distribution",
    [
        0.5,
        ("normal", 0.0, 1.0),
        ("uniform", 1.0, 0.0),
        ("uniform", 0.0, float("inf")),
        ("log_uniform", 0.0, 1.0),
        ("integer", 0.5, 2),
        ("choice", []),
        ("choice", 0.5),
    ],
)
def test_distributions_that_make_no_sense(distribution):
    with pytest.raises(ConfigError, match="gamma"):
        RandomSearch(space={"gamma": distribution}, count=1)


def test_halving_keeps_a_third_at_a_third_of_the_budget():
    halving = SuccessiveHalving(candidates=RandomSearch(space=SPACE, count=10))
    assert halving.stages() == [
        Stage(pytest.approx(1 / 9), 4),
        Stage(pytest.approx(1 / 3), 2),
        Stage(1.0),
    ]
    assert len(halving.points()) == 10
    with pytest.raises(ConfigError, match="2 or more"):
        SuccessiveHalving(candidates=RandomSearch(space=SPACE, count=10), reduction=1)
