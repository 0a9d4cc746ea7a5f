"""Learning curves of several runs on one grid of steps."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.errors import AnalysisError


def common_grid(table: pd.DataFrame, tag: str, points: int = 200) -> NDArray[np.float64]:
    """Return the steps [n] at which all runs are compared.

    These are the steps that were logged where all runs share them and they are at most `points`,
    else `points` even ones over the span of all runs.

    Raises:
        AnalysisError: no run has the tag.
    """
    rows = table[table["tag"] == tag]
    if rows.empty:
        raise AnalysisError(f"no run has the tag {tag!r}")
    steps = rows.groupby("run", observed=True)["step"].agg(tuple)
    longest = max(steps, key=len)
    if len(longest) <= points and all(run == longest[: len(run)] for run in steps):
        return np.array(longest, np.float64)
    return np.linspace(rows["step"].min(), rows["step"].max(), points)


def align(table: pd.DataFrame, tag: str, grid: NDArray[np.float64]) -> pd.DataFrame:
    """Interpolate each run's curve on the grid [n]: one row per run, one column per step.

    Straight lines between a run's finite points. A run has NaN before its first point, after its
    last one (nothing is extrapolated) and from its first non-finite value on (it diverged there).
    """
    rows = table[table["tag"] == tag]
    curves = {
        run: _on_grid(points["step"].to_numpy(), points["value"].to_numpy(), grid)
        for run, points in rows.groupby("run", observed=True)
    }
    columns = pd.Index(grid, name="step")
    index = pd.Index(list(curves), name="run")
    return pd.DataFrame(np.array(list(curves.values())).reshape(-1, len(grid)), index, columns)


def _on_grid(
    steps: NDArray[np.int64], values: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    broken = np.flatnonzero(~np.isfinite(values))
    end = broken[0] if len(broken) else len(values)
    if end == 0:
        return np.full(len(grid), np.nan)
    return np.interp(grid, steps[:end], values[:end], left=np.nan, right=np.nan)
