"""One row per run and one per group: final returns with everything that is wrong about them."""

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.statistics import (
    area_under_curve,
    bootstrap_interval,
    interquartile_mean,
    steps_to_threshold,
    stratified_indices,
)

RETURN = "eval/mean_reward"
TRAINING_RETURN = "rollout/ep_rew_mean"
FINAL_SHARE = 0.1  # the final return is the mean over this last part of a run's evaluations
UNFINISHED = {"running", "failed", "interrupted"}
CURVE = 5  # points below which evaluations are no curve
REPETITIONS = 2000


def return_tag(table: pd.DataFrame) -> str:
    """Name the tag that scores a run: the evaluation return, else the one of training.

    Raises:
        AnalysisError: the table has neither.
    """
    for tag in (RETURN, TRAINING_RETURN):
        if (table["tag"] == tag).any():
            return tag
    raise AnalysisError(
        f"no run has {RETURN!r} or {TRAINING_RETURN!r}; name the tag to compare, "
        "or the library that wrote the logs"
    )


def curve_tag(table: pd.DataFrame, tag: str) -> str:
    """Name the tag whose curves show learning: `tag`, or the training return if it is too sparse.

    Runs that are evaluated only a few times (acx evaluates once, at the end, unless told otherwise)
    have no curve of evaluations.
    """
    lengths = table[table["tag"] == tag].groupby("run", observed=True).size()
    trained = (table["tag"] == TRAINING_RETURN).any()
    return TRAINING_RETURN if tag == RETURN and trained and lengths.max() < CURVE else tag


def run_summary(
    table: pd.DataFrame, status: pd.DataFrame, tag: str, threshold: float | None = None
) -> pd.DataFrame:
    """Summarize each run by the score `tag`: one row per run of `status`.

    Columns: label, task, group, seed, state, copy_of, points, nonfinite (how many of them),
    last_step, final (the mean of the last tenth of the points; NaN if one of them is not finite or
    there is none), best and diverged. From its learning curve (`curve_tag`): area (the mean height)
    and, with a threshold, steps_to_threshold (NaN where it was never reached).
    """
    scores, curves = (_by_run(table, name) for name in (tag, curve_tag(table, tag)))
    nothing = table.iloc[:0]
    measured = [
        _scores(scores.get(name, nothing)) | _curve(curves.get(name, nothing), threshold)
        for name in status.index.astype(str)
    ]
    summary = status[["label", "task", "group", "seed", "state", "copy_of"]].join(
        pd.DataFrame(measured, index=status.index)
    )
    broken = summary["nonfinite"].gt(0) | summary["state"].eq("diverged")
    return summary.assign(diverged=broken)


def _by_run(table: pd.DataFrame, tag: str) -> dict[str, pd.DataFrame]:
    return dict(list(table[table["tag"] == tag].groupby("run", observed=True)))


def _scores(points: pd.DataFrame) -> dict[str, float]:
    steps, values = points["step"].to_numpy(), points["value"].to_numpy()
    finite = np.isfinite(values)
    last = values[-max(1, round(FINAL_SHARE * len(values))) :]
    return {
        "points": len(values),
        "nonfinite": int((~finite).sum()),
        "last_step": float(steps[-1]) if len(steps) else np.nan,
        "final": float(last.mean()) if len(last) and np.isfinite(last).all() else np.nan,
        "best": float(values[finite].max()) if finite.any() else np.nan,
    }


def _curve(points: pd.DataFrame, threshold: float | None) -> dict[str, float]:
    steps, values = points["step"].to_numpy(np.float64), points["value"].to_numpy()
    finite = np.isfinite(values)
    row = {"area": area_under_curve(steps[finite], values[finite]) if finite.any() else np.nan}
    if threshold is not None:
        row["steps_to_threshold"] = steps_to_threshold(steps, values, threshold)
    return row


def group_summary(summary: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Summarize each group over its seeds: one row per label, best final return first.

    Columns: n (runs, copies left out), scored (with a finite final return), diverged, unfinished,
    mean, std (sample standard deviation; empty for one run), median, iqm, low and high (95 %
    bootstrap interval of the iqm; empty below two runs), best_run, and the means of area and
    steps_to_threshold where those are known. Statistics are over the scored runs: compare `scored`
    with `n` before believing them.
    """
    counted = summary[summary["copy_of"] == ""]
    rows = {}
    for label, runs in counted.groupby("label", sort=False):
        finals = runs["final"].dropna().to_numpy()
        rows[label] = {
            "n": len(runs),
            "scored": len(finals),
            "diverged": int(runs["diverged"].sum()),
            "unfinished": int(runs["state"].isin(UNFINISHED).sum()),
            **spread(finals, seed),
            "best_run": runs["final"].idxmax() if len(finals) else "",
            "area": runs["area"].mean(),
        }
        if "steps_to_threshold" in runs:
            reached = runs["steps_to_threshold"].dropna()
            rows[label] |= {"reached": len(reached), "steps_to_threshold": reached.mean()}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("label")
    return table.sort_values("iqm", ascending=False, na_position="last")


def spread(finals: np.ndarray, seed: int = 0) -> dict[str, float]:
    """Return mean, std, median, interquartile mean and its 95 % interval of final returns [runs].

    What few runs can't tell is NaN. `seed` is that of the interval's resampling.
    """
    count = len(finals)
    if not count:
        return dict.fromkeys(("mean", "std", "median", "iqm", "low", "high"), np.nan)
    scores = finals[:, None]
    low = high = np.nan
    if count > 1:
        indices = stratified_indices(np.random.default_rng(seed), REPETITIONS, count, 1)
        low, high = bootstrap_interval(scores, interquartile_mean, indices)
    return {
        "mean": float(finals.mean()),
        "std": float(finals.std(ddof=1)) if count > 1 else np.nan,
        "median": float(np.median(finals)),
        "iqm": float(interquartile_mean(scores)),
        "low": low,
        "high": high,
    }


def curve_band(
    curves: pd.DataFrame, seed: int = 0, repetitions: int = 500
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the interquartile mean of curves [runs, steps] and its 95 % interval: three [steps].

    Each step counts the runs that have a value there; with one run the interval is empty (NaN).
    """
    values = curves.to_numpy()
    center, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    generator = np.random.default_rng(seed)
    for present in np.unique(np.isfinite(values), axis=1).T:
        columns = np.flatnonzero((np.isfinite(values) == present[:, None]).all(axis=0))
        runs = values[present][:, columns].T[..., None]  # [steps, runs, 1]
        count = int(present.sum())
        if not count:
            continue
        center[columns] = interquartile_mean(runs)
        if count > 1:
            # One draw of runs serves all steps, so that the band is as smooth as the curves.
            draws = generator.integers(count, size=(repetitions, count))
            resampled = interquartile_mean(runs[:, draws.ravel()].reshape(-1, count, 1))
            by_step = resampled.reshape(len(columns), repetitions)
            low[columns], high[columns] = np.quantile(by_step, [0.025, 0.975], axis=1)
    return center, low, high
