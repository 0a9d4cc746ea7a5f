"""What a sweep found: tables by hyperparameter and by point, the best point, and warnings."""

import math
import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.summary import group_summary
from sweeps.axes import axis_values
from sweeps.folder import Progress, write_atomically
from sweeps.plan import Plan
from sweeps.strategies import Values
from sweeps.values import literal, spoken

POINTS, HYPERPARAMETERS, BEST = "points.csv", "hyperparameters.csv", "best.gin"
COLUMNS = ["mean", "iqm", "low", "high", "scored", "n"]


def trial_scores(plan: Plan, progress: Mapping[str, Progress]) -> pd.DataFrame:
    """One row for each trial: its final return (NaN where it has none), point, seed and values."""
    rows = []
    for trial in plan.trials:
        found = progress[trial.name]
        final = found.mean_reward if found.state == "finished" else None
        rows.append(
            {
                **{name: spoken(value) for name, value in trial.values.items()},
                "point": trial.point,
                "seed": trial.seed,
                "state": found.state,
                "final": math.nan if final is None else final,
            }
        )
    return pd.DataFrame(rows)


def _grouped(scores: pd.DataFrame, by: str) -> pd.DataFrame:
    """Statistics over the runs that share a value of the column `by`, in order of appearance."""
    runs = scores.assign(label=scores[by], copy_of="", diverged=False, area=math.nan)
    return group_summary(runs).loc[list(dict.fromkeys(scores[by])), COLUMNS]


def by_point(scores: pd.DataFrame) -> pd.DataFrame:
    """Statistics of each point over its seeds."""
    return _grouped(scores, "point").rename_axis("point")


def by_hyperparameter(plan: Plan, scores: pd.DataFrame) -> pd.DataFrame:
    """Statistics of each value of each hyperparameter, over all else; indexed by both."""
    tables = {name: _grouped(scores, name) for name in plan.axes}
    return pd.concat(tables, names=["hyperparameter", "value"])


def best_point(points: pd.DataFrame) -> str | None:
    """The point of the highest interquartile mean; one that lost seeds only if all did."""
    whole = points[points["scored"] == points["n"]]
    ranked = (whole if len(whole) else points)["iqm"].dropna()
    return None if ranked.empty else str(ranked.idxmax())


def edge_warnings(plan: Plan, best: Values) -> list[str]:
    """Say where the best value is the smallest or largest that was tried."""
    warnings = []
    for name, value in best.items():
        tried = axis_values(plan, name)
        numbers = [v for v in tried if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) < 2 or value not in numbers or not math.isfinite(value):
            continue
        off = len(numbers) < len(tried)  # None lies beyond the largest: nothing is clipped
        if value == min(numbers):
            warnings.append(
                f"{name} = {spoken(value)} is the smallest value tried: try smaller ones"
            )
        elif value == max(numbers) and not off:
            warnings.append(f"{name} = {spoken(value)} is the largest value tried: try larger ones")
    return warnings


def best_config(plan: Plan, point: str, row: "pd.Series[float]", folder: Path) -> str:
    """A gin file that trains the best point."""
    experiment = os.path.relpath(plan.experiment, folder)
    lines = [
        f"# The best of {len(plan.points)} points of {plan.file}: {point}.",
        f"# Evaluation return over {row['scored']:.0f} seeds: "
        f"interquartile mean {row['iqm']:.4g}, mean {row['mean']:.4g}.",
        f"include {experiment!r}",
        "",
        *plan.bindings,
        *(f"{name} = {literal(value)}" for name, value in plan.points[point].items()),
    ]
    return "\n".join(lines) + "\n"


def write_summary(folder: Path, plan: Plan, progress: Mapping[str, Progress]) -> str | None:
    """Write the tables and the best configuration; returns the best point's name."""
    scores = trial_scores(plan, progress)
    points = by_point(scores)
    write_atomically(folder / POINTS, points.to_csv())
    write_atomically(folder / HYPERPARAMETERS, by_hyperparameter(plan, scores).to_csv())
    best = best_point(points)
    if best is not None:
        write_atomically(folder / BEST, best_config(plan, best, points.loc[best], folder))
    return best
