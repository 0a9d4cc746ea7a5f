"""Pictures of tables, each drawn into the axes that it is given.

`look` names the groups to draw in color and how (`look_of`); give all figures of a page the same.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, PercentFormatter

from analysis.curves import align, common_grid
from analysis.errors import AnalysisError
from analysis.importance import INTERACTIONS, SEEDS
from analysis.statistics import performance_profile
from analysis.styles import MUTED, TEXT, Style, short_names, styles
from analysis.summary import curve_band

Look = Mapping[str, Style]

_WORDS = {"final": "final return", "area": "mean return over training"}

FEW = 12  # points that are drawn as such
MOST_CURVES = 7  # groups in color; more can't be told apart


def look_of(summary: pd.DataFrame) -> dict[str, Style]:
    """Give the seven best groups of a `run_summary` their styles, best first."""
    finals = summary[summary["copy_of"] == ""].groupby("label")["final"].mean()
    return styles(finals.sort_values(ascending=False).index[:MOST_CURVES])


def learning_curves(
    axes: Axes, table: pd.DataFrame, summary: pd.DataFrame, tag: str, look: Look
) -> None:
    """Draw the interquartile mean of each group over environment steps, with its 95 % band.

    `summary` is that of `run_summary`. Groups without a look are thin gray lines; a cross marks
    where a run diverged. Copies are left out.

    Raises:
        AnalysisError: no run has the tag.
    """
    counted = summary[summary["copy_of"] == ""]
    table = table[table["run"].isin(counted.index)]
    curves = align(table, tag, common_grid(table, tag))
    labels = counted["label"].unique()
    names = short_names(labels)
    others = [label for label in labels if label not in look]
    for label in [*others, *(label for label in look if label in names)]:
        runs = counted.index[counted["label"] == label].intersection(curves.index)
        if len(runs):
            _curve(axes, curves.loc[runs], names[label], look.get(label))
    ends = counted[counted["diverged"]].index.intersection(curves.index)
    _crosses(axes, curves.loc[ends], counted.loc[ends, "label"], look)
    if others:
        axes.plot(
            [],
            [],
            color=MUTED,
            lw=0.8,
            label=f"{len(others)} other configuration{'s' * (len(others) > 1)}",
        )
    axes.set_xlabel("environment steps")
    axes.set_ylabel(tag)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _finish(axes)
    _legend(axes)


def _curve(axes: Axes, curves: pd.DataFrame, label: str, style: Style | None) -> None:
    center, low, high = curve_band(curves)
    steps = curves.columns.to_numpy()
    if style is None:
        axes.plot(steps, center, color=MUTED, lw=0.8, zorder=1)
        return
    count = f" ({len(curves)} seeds)" if len(curves) > 1 else " (1 run)"
    marker = "o" if np.isfinite(center).sum() <= FEW else ""
    axes.plot(
        steps,
        center,
        style.dash,
        color=style.color,
        marker=marker,
        ms=5,
        lw=1.8,
        label=label + count,
        zorder=3,
    )
    axes.fill_between(steps, low, high, color=style.color, alpha=0.18, lw=0, zorder=2)


def _crosses(axes: Axes, curves: pd.DataFrame, labels: pd.Series, look: Look) -> None:
    steps = curves.columns.to_numpy()
    for (_, curve), label in zip(curves.iterrows(), labels, strict=True):
        known = np.flatnonzero(np.isfinite(curve.to_numpy()))
        if len(known):
            color = look[label].color if label in look else TEXT
            place = steps[known[-1]], curve.iloc[known[-1]]
            axes.plot(*place, "X", color=color, ms=8, mec="white", mew=1, zorder=4)
    if len(curves):
        axes.plot([], [], "X", color=TEXT, ms=8, mec="white", lw=0, label="diverged")


def heat_map(
    axes: Axes, summary: pd.DataFrame, configs: pd.DataFrame, x: str, y: str, value: str = "final"
) -> None:
    """Draw a sweep over two of its axes: each cell the mean over all other axes and seeds.

    A cell says how many of its runs diverged; those are not in its mean.

    Raises:
        AnalysisError: x or y is no column of `configs`.
    """
    for name in (x, y):
        if name not in configs:
            raise AnalysisError(f"no configuration binds {name!r}")
    counted = summary[summary["copy_of"] == ""]
    keys = [_categories(configs.loc[counted.index, name]) for name in (y, x)]
    groups = counted.groupby(keys, observed=False)
    cells = groups[value].mean().unstack()[::-1]
    diverged = groups["diverged"].sum().unstack()[::-1]
    image = axes.imshow(cells.to_numpy(float), cmap="cividis", aspect="auto")
    middle = np.nanmean([np.nanmin(cells), np.nanmax(cells)]) if cells.notna().any(axis=None) else 0
    for row, column in np.ndindex(cells.shape):
        number, broken = cells.iat[row, column], diverged.iat[row, column]
        text = "–" if pd.isna(number) else f"{number:,.4g}"
        text += f"\n{broken:.0f} diverged" if broken > 0 else ""
        color = TEXT if pd.isna(number) or number > middle else "white"
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=9)
    axes.set_xticks(range(cells.shape[1]), cells.columns)
    axes.set_yticks(range(cells.shape[0]), cells.index)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label=_WORDS.get(value, value)).outline.set_visible(False)


def _categories(column: pd.Series) -> pd.Series:
    """Turn an axis' values into text in the order of the values, `None` last."""
    values = sorted(column.dropna().unique())
    texts = [*map(str, values), *(["None"] if column.isna().any() else [])]
    names = column.map(lambda value: "None" if pd.isna(value) else str(value))
    return names.astype(pd.CategoricalDtype(list(dict.fromkeys(texts))))


def importance_bars(axes: Axes, shares: pd.Series) -> None:
    """Draw the shares of `importance`, hyperparameters in color, the rest in gray."""
    shown = shares[::-1]
    colors = [MUTED if name in (INTERACTIONS, SEEDS) else "#0072B2" for name in shown.index]
    axes.barh(range(len(shown)), shown, color=colors, height=0.65)
    for row, share in enumerate(shown):
        axes.text(share + 0.01, row, f"{share:.0%}", va="center", color=TEXT, fontsize=9)
    axes.set_yticks(range(len(shown)), shown.index)
    axes.set_xlim(0, max(shown.max() * 1.15, 0.1))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("share of the variance of final returns")
    axes.tick_params(axis="y", length=0)
    _finish(axes)
    axes.grid(False, axis="y")


def intervals(axes: Axes, groups: pd.DataFrame, look: Look) -> None:
    """Draw each group's interquartile mean with its 95 % interval; `groups` of `group_summary`."""
    shown = groups[groups["iqm"].notna()][::-1]
    for row, (label, group) in enumerate(shown.iterrows()):
        color = look[str(label)].color if label in look else MUTED
        if pd.notna(group["low"]):
            axes.plot([group["low"], group["high"]], [row, row], color=color, lw=7, alpha=0.35)
        axes.plot(group["iqm"], row, "o", color=color, ms=6)
    names = short_names(map(str, shown.index))
    counts = zip(names.values(), shown["scored"], strict=True)
    axes.set_yticks(range(len(shown)), [f"{name} (n={count:.0f})" for name, count in counts])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("final return: interquartile mean and 95 % interval")
    axes.tick_params(axis="y", length=0)
    _finish(axes)
    axes.grid(False, axis="y")


def profiles(axes: Axes, summary: pd.DataFrame, look: Look) -> None:
    """Draw for each group the share of its runs that end above a return, for every return.

    A diverged run ends above none. The higher curve is better wherever it is higher.
    """
    counted = summary[summary["copy_of"] == ""]
    finals = counted.loc[counted["label"].isin(list(look)), "final"].dropna()
    if finals.empty:
        raise AnalysisError("no run has a final return")
    pad = 0.05 * (finals.max() - finals.min() or 1)
    thresholds = np.linspace(finals.min() - pad, finals.max() + pad, 400)
    groups = counted.groupby("label")["final"]
    names = short_names(counted["label"].unique())
    for label in (label for label in look if label in names):
        scores = groups.get_group(label).fillna(-np.inf).to_numpy()[:, None]
        shares = performance_profile(scores, thresholds)
        style = look[label]
        axes.step(thresholds, shares, style.dash, color=style.color, lw=1.8, label=names[label])
    axes.set_xlabel("final return τ")
    axes.set_ylabel("share of runs above τ")
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_ylim(-0.03, 1.05)
    _finish(axes)
    _legend(axes)


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#E6E6E6", lw=0.8)
    axes.set_axisbelow(True)


def _legend(axes: Axes) -> None:
    """Put few names into the picture and many beside it."""
    handles, _ = axes.get_legend_handles_labels()
    if len(handles) > 4:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=9)
    elif handles:
        axes.legend(loc="best", framealpha=0.9, edgecolor="none", fontsize=9)
