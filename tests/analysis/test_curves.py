import math

import numpy as np
import pandas as pd
import pytest

from analysis import AnalysisError
from analysis.curves import align, common_grid


def table(**runs):
    rows = [
        {"run": run, "tag": "x", "step": step, "value": value}
        for run, points in runs.items()
        for step, value in points
    ]
    return pd.DataFrame(rows)


def test_shared_steps_are_the_grid():
    grid = common_grid(table(a=[(10, 0), (20, 1), (40, 2)], b=[(10, 5), (20, 6)]), "x")
    assert grid.tolist() == [10, 20, 40]


def test_different_steps_share_an_even_grid_over_all_runs():
    both = table(a=[(0, 0.0), (100, 10.0)], b=[(10, 1.0), (60, 6.0)])
    grid = common_grid(both, "x", points=11)
    assert grid.tolist() == list(range(0, 101, 10))
    curves = align(both, "x", grid)
    np.testing.assert_allclose(curves.loc["a"], np.arange(11))
    expected = [np.nan, 1, 2, 3, 4, 5, 6, *[np.nan] * 4]  # nothing is extrapolated
    np.testing.assert_allclose(curves.loc["b"], expected)


def test_many_shared_steps_are_thinned():
    grid = common_grid(table(a=[(step, 0.0) for step in range(1001)]), "x", points=101)
    assert grid.tolist() == list(range(0, 1001, 10))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_curve_ends_where_it_diverges(broken):
    one = table(a=[(0, 0.0), (1, 1.0), (2, broken), (3, 3.0)], b=[(0, broken), (1, 1.0)])
    curves = align(one, "x", np.array([0.0, 0.5, 1.0, 1.5, 3.0]))
    np.testing.assert_array_equal(curves.loc["a"], [0, 0.5, 1, np.nan, np.nan])
    assert curves.loc["b"].isna().all()


def test_a_missing_tag_is_named():
    with pytest.raises(AnalysisError, match="no run has the tag 'y'"):
        common_grid(table(a=[(0, 0.0)]), "y")
