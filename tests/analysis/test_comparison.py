import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from event_files import packed, write

from analysis import AnalysisError, load_runs, load_status
from analysis.comparison import compare
from analysis.summary import curve_band, curve_tag, group_summary, run_summary


def runs(label, finals, seeds=None, task="Pendulum-v1", diverged=0):
    finals = [*finals, *[np.nan] * diverged]
    return pd.DataFrame(
        {
            "label": label,
            "task": task,
            "seed": seeds or range(len(finals)),
            "copy_of": "",
            "final": finals,
            "diverged": [not np.isfinite(final) for final in finals],
        }
    )


def test_a_paired_comparison_worked_out_by_hand():
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt 3, two degrees of freedom."""
    result = compare(runs("a", [11.0, 22.0, 33.0]), runs("b", [10.0, 20.0, 30.0]))
    assert result.pairs == 3
    assert result.difference == pytest.approx(2)
    quantile = 4.302652729911275  # of Student's t at 0.975, 2 degrees of freedom
    assert (result.low, result.high) == pytest.approx(
        (2 - quantile / 3**0.5, 2 + quantile / 3**0.5)
    )
    assert result.p_value == pytest.approx(0.07417990022744862)
    assert not result.decided
    assert result.sentence().startswith(
        "No winner yet: a is ahead of b by 2 (95 % interval -0.4841 "
    )
    assert "92.6 % certainty (3 seeds, compared pair by pair)" in result.sentence()


def test_different_seeds_are_compared_as_two_samples():
    """Means 2 and 7, variances 1 and 1: standard error sqrt(2/3), 4 degrees of freedom."""
    result = compare(runs("a", [1.0, 2.0, 3.0]), runs("b", [6.0, 7.0, 8.0], seeds=[7, 8, 9]))
    assert result.pairs == 0
    reach = 2.7764451051977987 * (2 / 3) ** 0.5
    assert (result.low, result.high) == pytest.approx((-5 - reach, -5 + reach))
    assert result.wins == 0.0
    assert result.sentence() == (
        "b beats a by 5 (95 % interval 2.733 to 7.267), with 99.6 % certainty (3 against 3 runs)."
    )


def test_the_pairs_match_seeds_and_not_rows():
    result = compare(runs("a", [30.0, 10.0], seeds=[3, 1]), runs("b", [9.0, 29.0], seeds=[1, 3]))
    assert result.second_finals.tolist() == [9.0, 29.0]
    assert (result.low, result.high) == (1.0, 1.0)


def test_seeds_needed_are_those_that_reach_80_percent_power():
    """Cohen's d = 0.5 needs 34 pairs, or 64 runs a side (Cohen 1988, tables 2.4.1 and 2.3.5)."""
    spread = np.array([-1.0, 0.0, 1.0])  # standard deviation 1
    assert compare(runs("a", spread + 0.5), runs("b", np.zeros(3))).needed == 34
    other = runs("b", spread - 0.5, seeds=[7, 8, 9])
    result = compare(runs("a", spread + 0.0), other)
    assert result.needed == 64
    assert "about 61 more seeds each" in result.sentence()


def test_the_needed_seeds_find_the_difference_four_times_out_of_five():
    generator = np.random.default_rng(5)
    found = 0
    for _ in range(200):
        a, b = generator.normal(0.5, 1, 34), np.zeros(34)
        found += compare(runs("a", a), runs("b", b)).decided
    assert 0.8 - 3 * 0.0283 < found / 200 < 0.8 + 3 * 0.0283


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_five_seeds_cover_the_truth(paired):
    generator = np.random.default_rng(6)
    hits = 0
    for _ in range(300):
        a, b = generator.normal(3, 1, 5), generator.normal(1, 2, 5)
        result = compare(runs("a", a), runs("b", b, seeds=None if paired else list(range(9, 14))))
        hits += result.low <= 2 <= result.high
    assert 0.95 - 3 * 0.0126 < hits / 300 < 0.95 + 3 * 0.0126


def test_single_and_equal_runs_get_an_answer_too():
    assert "run at least 3 seeds" in compare(runs("a", [2.0]), runs("b", [1.0])).sentence()
    same = compare(runs("a", [1.0, 2.0]), runs("b", [1.0, 2.0]))
    assert same.sentence() == "a and b end with the same returns in every run."


def test_a_diverged_run_is_named_and_loses():
    result = compare(runs("a", [5.0, 6.0], diverged=2), runs("b", [1.0, 2.0, 3.0, 4.0]))
    assert result.wins == 0.5
    assert "2 runs of a diverged and can't count here." in result.sentence()


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            runs("a", [1.0]),
            runs("b", [2.0], task="CartPole-v1"),
            "different tasks .CartPole-v1 and",
        ),
        (
            pd.concat([runs("a", [1.0]), runs("c", [1.0])]),
            runs("b", [1.0]),
            "holds 2 configurations",
        ),
        (runs("a", [], diverged=1), runs("b", [1.0]), "no run of a has a final return"),
    ],
)
def test_what_can_not_be_compared_is_refused(first, second, message):
    with pytest.raises(AnalysisError, match=message):
        compare(first, second)


def test_T71_diverged_seeds_and_single_seeds_in_the_summary(make_run):
    for seed, returns in enumerate(([1.0, 3.0], [1.0, 5.0], [1.0, np.nan])):
        make_run(f"a/seed{seed}", {"rate": 1, "seed": seed}, returns)
    root = make_run("b/seed0", {"rate": 2, "seed": 0}, [1.0, 7.0], state="running").parents[1]
    summary = run_summary(load_runs(root), load_status(root), "eval/mean_reward", threshold=4.0)
    assert summary["nonfinite"].tolist() == [0, 0, 1, 0]
    assert summary["diverged"].tolist() == [False, False, True, False]
    assert summary["steps_to_threshold"].tolist()[1::2] == [1750.0, 1500.0]
    groups = group_summary(summary)
    three, one = groups.loc["pendulum rate=1"], groups.loc["pendulum rate=2"]
    assert three[["n", "scored", "diverged", "unfinished", "mean"]].tolist() == [3, 2, 1, 0, 4.0]
    assert three["std"] == pytest.approx(2**0.5)
    assert one[["n", "unfinished", "mean"]].tolist() == [1, 1, 7.0]
    assert one[["std", "low", "high"]].isna().all()
    assert groups.index[0] == "pendulum rate=2"


def test_the_final_return_is_the_last_tenth(make_run):
    folder = make_run("a", {"seed": 0}, [0.0] * 18 + [4.0, 8.0])
    summary = run_summary(load_runs(folder), load_status(folder), "eval/mean_reward")
    assert summary["final"].tolist() == [6.0]
    assert summary["best"].tolist() == [8.0]


def test_runs_evaluated_once_show_their_training_curve(tmp_path):
    steps = range(1000, 11_000, 1000)
    events = [packed(step, {"rollout/ep_rew_mean": step / 1000}) for step in steps]
    write(tmp_path / "events.out.tfevents.1.h", [*events, packed(10_000, {"eval/mean_reward": 50})])
    table = load_runs(tmp_path)
    assert curve_tag(table, "eval/mean_reward") == "rollout/ep_rew_mean"
    assert curve_tag(table, "rollout/ep_len_mean") == "rollout/ep_len_mean"
    (run,) = run_summary(
        table, load_status(tmp_path), "eval/mean_reward", threshold=2.5
    ).itertuples()
    assert (run.final, run.points, run.area, run.steps_to_threshold) == (50.0, 1, 5.5, 2500.0)


def test_a_band_of_curves_counts_the_runs_present_at_each_step():
    curves = pd.DataFrame([[1.0, 2.0, 3.0], [5.0, 6.0, np.nan]])
    center, low, high = curve_band(curves)
    assert center.tolist() == [3.0, 4.0, 3.0]
    assert low[0] == 1.0
    assert high[0] == 5.0
    assert np.isnan([low[2], high[2]]).all()


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "analysis.compare", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"COLUMNS": "100", "PATH": ""},
    )


def test_the_command_prints_tables_and_the_verdict(make_run):
    for seed in range(3):
        make_run(f"a/seed{seed}", {"rate": 0.1, "seed": seed}, [0.0, 10.0 + seed])
        root = make_run(
            f"b/seed{seed}", {"rate": 0.2, "seed": seed}, [0.0, 1.0 + 2 * seed]
        ).parents[1]
    done = command(root / "a", f"{root}/b/seed*")
    assert done.returncode == 0, done.stderr
    for text in ("pendulum rate=0.1", "Seed by seed", "+9", "rate", "pair by pair"):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["nothing", "runs/a"], "nothing doesn't exist"),
        (["runs/a", "runs/a"], "is on both sides"),
        (["runs", "runs/a"], "is on both sides"),
        (["a", "b", "c"], "name two groups of runs, not 3"),
    ],
)
def test_the_command_says_bad_input_in_one_line(make_run, monkeypatch, paths, message):
    monkeypatch.chdir(make_run("a", {"seed": 1}, [1.0]).parents[1])
    done = command(*paths)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
