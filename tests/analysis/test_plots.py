import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from analysis import AnalysisError, load_configs, load_runs, load_status, plots
from analysis.importance import importance
from analysis.styles import COLORS, short_names, styles
from analysis.summary import group_summary, run_summary


@pytest.fixture
def axes():
    return Figure(layout="constrained").subplots()


@pytest.fixture
def sweep(make_run):
    """Rate 1 or 2, scale 1 or 2, two seeds; the final return is 10 rate + scale + seed."""
    for rate in (1, 2):
        for scale in (1, 2):
            for seed in (0, 1):
                final = 10.0 * rate + scale + seed
                returns = [0.0, final] if (rate, scale, seed) != (2, 1, 1) else [0.0, math.nan]
                config = {"rate": rate, "scale": scale, "seed": seed}
                root = make_run(f"{rate}/{scale}/{seed}", config, returns).parents[2]
    table, status = load_runs(root), load_status(root)
    return table, run_summary(table, status, "eval/mean_reward"), load_configs(root)


def test_curves_show_means_and_where_a_run_diverged(axes, sweep):
    table, summary, _ = sweep
    look = plots.look_of(summary)
    plots.learning_curves(axes, table, summary, "eval/mean_reward", look)
    lines = {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}
    best = lines["rate=2 scale=2 (2 seeds)"]
    np.testing.assert_allclose(best.get_xdata(), [1000, 2000])
    np.testing.assert_allclose(best.get_ydata(), [0, 22.5])
    assert to_hex(best.get_color()).upper() == look["pendulum rate=2 scale=2"].color
    marks = [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "X"]
    assert [1000.0, 0.0] in [point for line in marks for point in line]


def test_a_group_has_one_color_in_all_figures(sweep):
    table, summary, _ = sweep
    look = plots.look_of(summary)
    first, second, third = (Figure().subplots() for _ in range(3))
    plots.learning_curves(first, table, summary, "eval/mean_reward", look)
    plots.profiles(second, summary, look)
    plots.intervals(third, group_summary(summary), look)
    curves = {line.get_label().split(" (")[0]: line.get_color() for line in first.lines}
    shares = {line.get_label(): line.get_color() for line in second.lines}
    assert len(shares) == 4
    assert all(curves[name] == color for name, color in shares.items())
    names = [text.get_text().split(" (")[0] for text in third.get_yticklabels()]
    dots = [line for line in third.lines if line.get_marker() == "o"]
    assert {name: dot.get_color() for name, dot in zip(names, dots, strict=True)} == shares


def test_a_diverged_run_counts_as_the_worst_in_a_profile(axes, sweep):
    _, summary, _ = sweep
    plots.profiles(axes, summary, plots.look_of(summary))
    (line,) = (line for line in axes.lines if line.get_label() == "rate=2 scale=1")
    assert line.get_ydata()[0] == 0.5


def test_a_heat_map_puts_each_mean_into_its_cell(axes, sweep):
    _, summary, configs = sweep
    plots.heat_map(axes, summary, configs, x="scale", y="rate")
    columns = [label.get_text() for label in axes.get_xticklabels()]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    cells = {
        (
            rows[round(text.get_position()[1])],
            columns[round(text.get_position()[0])],
        ): text.get_text()
        for text in axes.texts
    }
    assert cells == {
        ("1", "1"): "11.5",
        ("1", "2"): "12.5",
        ("2", "1"): "21\n1 diverged",
        ("2", "2"): "22.5",
    }
    image = axes.images[0].get_array()
    assert image[rows.index("2"), columns.index("2")] == 22.5
    assert rows == ["2", "1"]  # the larger value on top, as on an axis


def test_a_heat_map_has_a_place_for_none(axes, make_run):
    for clip, final in ((None, 1.0), (0.5, 2.0), (10.0, math.nan)):
        for gamma in (0.9, 0.95):
            config = {"clip": clip, "gamma": gamma, "seed": 0}
            root = make_run(f"{clip}/{gamma}", config, [10 * gamma + final]).parents[1]
    summary = run_summary(load_runs(root), load_status(root), "eval/mean_reward")
    plots.heat_map(axes, summary, load_configs(root), x="gamma", y="clip")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["None", "10.0", "0.5"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.9", "0.95"]
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert [texts[0, row] for row in range(3)] == ["10", "–\n1 diverged", "11"]
    assert [texts[1, row] for row in range(3)] == ["10.5", "–\n1 diverged", "11.5"]


def test_a_heat_map_of_an_unknown_binding_is_refused(axes, sweep):
    _, summary, configs = sweep
    with pytest.raises(AnalysisError, match="no configuration binds 'gamma'"):
        plots.heat_map(axes, summary, configs, x="gamma", y="rate")


def grid(effect):
    rows = [(a, b, seed) for a in (0, 1) for b in (0, 1) for seed in (0, 1)]
    configs = pd.DataFrame(rows, columns=["a", "b", "seed"])
    return configs.apply(lambda row: float(effect(*row)), axis=1), configs


def test_importance_worked_out_by_hand():
    """Variances of 4a, 2b and seed on a balanced grid: 4, 1 and 1/4."""
    finals, configs = grid(lambda a, b, seed: 4 * a + 2 * b + seed)
    shares = importance(finals, configs, ["b", "a"])
    assert list(shares.index) == ["a", "b", "interactions", "seeds"]
    np.testing.assert_allclose(shares, np.array([4, 1, 0, 0.25]) / 5.25, atol=1e-12)


def test_a_pure_interaction_is_nobodys_main_effect():
    finals, configs = grid(lambda a, b, _: a != b)
    assert importance(finals, configs, ["a", "b"]).tolist() == [0, 0, 1, 0]
    with pytest.raises(AnalysisError, match="nothing was swept"):
        importance(finals, configs, [])


def test_styles_are_distinct_and_keep_to_their_names():
    labels = [f"group {index}" for index in range(20)]
    assert len({style.color for style in styles(labels[:7]).values()}) == 7
    assert len(set(styles(labels).values())) == 20
    assert styles(labels[:3])["group 0"] == styles(["group 0", "else"])["group 0"]
    alone = [styles([label])[label].color for label in labels]
    assert set(alone) <= set(COLORS)
    assert len(set(alone)) > 3


# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "full": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(linear):
    scaled = np.cbrt(XYZ @ np.clip(linear, 0, 1) / XYZ.sum(axis=1))
    x, y, z = scaled
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_colors_stay_apart_for_the_color_blind(vision):
    """A difference of 10 in CIE L*a*b* is seen at a glance; lines are thin, so ask for 15."""
    linear = [
        np.where((c := np.array(to_rgb(x))) <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        for x in COLORS
    ]
    seen = [lab(np.array(VISION[vision]) @ color) for color in linear]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 15


def test_the_shared_experiment_is_left_out_of_names():
    assert short_names(["x a=1", "x a=2"]) == {"x a=1": "a=1", "x a=2": "a=2"}
    assert short_names(["x a=1", "y"]) == {"x a=1": "x a=1", "y": "y"}
    assert short_names(["x"]) == {"x": "x"}
