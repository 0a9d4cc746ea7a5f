"""The report's sections, top to bottom."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from analysis import plots
from analysis.comparison import compare
from analysis.configs import is_seed
from analysis.errors import AnalysisError
from analysis.importance import importance
from analysis.page import Html, element, figure, joined, page, table
from analysis.report import Results
from analysis.styles import MUTED, short_names
from analysis.summary import UNFINISHED, curve_tag, group_summary
from analysis.wording import number

WIDE, HALF = (10.5, 4.2), (5.2, 3.9)
MOST_MAPS = 6
HEALTH = (
    "train/approx_kl",
    "train/clip_fraction",
    "train/explained_variance",
    "train/entropy",
    "train/value_loss",
    "time/fps",
)


def report(results: Results, title: str, folder: Path) -> str:
    """Return the page; links to runs are relative to `folder`, where it will lie."""
    parts = [
        element("h1", f"Runs: {title}"),
        *_overview(results),
        *(part for task in _tasks(results) for part in _task(results, task)),
        *_findings(results),
        *_configurations(results),
        *_runs(results, folder),
        *_remarks(results),
    ]
    return page(f"Runs: {title}", parts)


def _tasks(results: Results) -> list[str]:
    return sorted(set(results.runs["task"]))


def _overview(results: Results) -> Iterator[Html]:
    runs = results.runs
    counted = runs[runs["copy_of"] == ""]
    scored = results.groups["iqm"].notna()
    lead = (
        f"{_count(len(counted), 'run')} in {_count(len(results.groups), 'configuration')}, scored "
        f"by the final {results.tag} (the mean of the last tenth of its points)."
    )
    if scored.any() and len(_tasks(results)) == 1:
        best, group = results.groups.index[0], results.groups.iloc[0]
        seeds = _count(int(group["scored"]), "seed")
        lead += f" Best: {best}, interquartile mean {number(group['iqm'])} over {seeds}."
    yield element("p", lead, class_="lead")
    problems = [
        (int(counted["diverged"].sum()), "diverged"),
        (int(counted["state"].isin(UNFINISHED).sum()), "did not finish"),
        (len(runs) - len(counted), "repeat another run's configuration and seed (counted once)"),
    ]
    said = [
        f"{count} {'run' if count == 1 else 'runs'} {what}" for count, what in problems if count
    ]
    if said:
        yield element("p", "Mind: " + "; ".join(said) + ".", class_="warning")


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count:,} {thing}s"


def _task(results: Results, task: str) -> Iterator[Html]:
    """Yield curves, groups and sweep of one task."""
    runs = results.runs[results.runs["task"] == task]
    groups = group_summary(runs)
    look = plots.look_of(runs)
    points = results.points[results.points["run"].isin(runs.index)]
    yield element("h2", task or "Learning curves")
    if not (points["tag"] == results.tag).any():
        yield element("p", f"No run logged {results.tag}.", class_="warning")
        return
    shown = curve_tag(points, results.tag)
    sparse = (
        f" Evaluations are too few for a curve, so this is {shown}." if shown != results.tag else ""
    )
    yield figure(
        lambda axes: plots.learning_curves(axes, points, runs, shown, look),
        WIDE,
        "Interquartile mean over seeds and its 95 % bootstrap interval." + sparse,
    )
    yield from _verdict(runs, groups)
    yield _group_table(groups, look)
    if groups["scored"].sum() > 1:
        yield figure(
            lambda axes: plots.intervals(axes, groups.head(15), look),
            (WIDE[0], 1.1 + 0.3 * min(len(groups), 15)),
            "Final returns: overlapping intervals are no proof of equality.",
        )
        yield figure(
            lambda axes: plots.profiles(axes, runs, look),
            WIDE,
            "Performance profile: the higher curve is better wherever it is higher.",
        )
    yield from _sweep(results, runs)
    yield from _health(points, runs, look)


def _verdict(runs: pd.DataFrame, groups: pd.DataFrame) -> Iterator[Html]:
    """Yield one sentence on the best two groups."""
    if len(groups) < 2:
        return
    names = short_names(map(str, groups.index))
    first, second = (
        runs[runs["label"] == label].assign(label=names[label]) for label in groups.index[:2]
    )
    try:
        verdict = compare(first, second).sentence()
    except AnalysisError:
        return  # one of them has no final return
    many = len(groups) > 2
    caution = " The best of many looks better than it is: repeat it with new seeds." if many else ""
    yield element("p", verdict + caution)


def _group_table(groups: pd.DataFrame, look: plots.Look) -> Html:
    names = short_names(map(str, groups.index))

    def named(label: str) -> Html:
        color = look[label].color if label in look else MUTED
        swatch = element("span", "", class_="swatch", style=f"background:{color}")
        return joined([swatch, names[label]])

    problems = [name for name in ("scored", "diverged", "unfinished") if _differs(groups, name)]
    timing = [name for name in ("reached", "steps_to_threshold") if name in groups]
    shown = groups[["n", *problems, "mean", "std", "iqm", "low", "high", "area", *timing]]
    headings = {
        "n": "seeds",
        "iqm": "IQM",
        "low": "95 % low",
        "high": "95 % high",
        "area": "mean over training",
        "steps_to_threshold": "steps to threshold",
    }
    return table(
        shown.rename(columns=headings).rename_axis("configuration"), drawn={"configuration": named}
    )


def _differs(groups: pd.DataFrame, name: str) -> bool:
    usual = groups["n"] - groups["diverged"] if name == "scored" else 0
    return bool((groups[name] != usual).any())


def _sweep(results: Results, runs: pd.DataFrame) -> Iterator[Html]:
    """Yield importance and heat maps where at least two hyperparameters were swept."""
    configs = results.configs.loc[runs.index]
    swept = [name for name in results.configs.attrs["swept"] if configs[name].nunique() > 1]
    grids = [name for name in swept if configs[name].nunique() <= 12]
    if len(grids) < 2 or runs["final"].notna().sum() < 2:
        return
    yield element("h3", "Sweep")
    shares = importance(runs.loc[runs["copy_of"] == "", "final"], configs, swept)
    ranked = [name for name in shares.index if name in grids]
    pictures = [
        figure(
            lambda axes: plots.importance_bars(axes, shares),
            HALF,
            "What the final return depends on.",
        )
    ]
    for x, y in list(itertools.combinations(ranked, 2))[:MOST_MAPS]:
        pictures.append(
            figure(
                lambda axes, x=x, y=y: plots.heat_map(axes, runs, configs, x, y),  # type: ignore[misc]
                HALF,
                f"Final return over {x} and {y}: mean over all else.",
            )
        )
    yield element("div", joined(pictures), class_="figures")


def _health(points: pd.DataFrame, runs: pd.DataFrame, look: plots.Look) -> Iterator[Html]:
    logged = set(points["tag"].unique())
    pictures = [
        figure(
            lambda axes, tag=tag: _plain_curves(axes, points, runs, tag, look),  # type: ignore[misc]
            (5.2, 2.6),
            tag,
        )
        for tag in HEALTH
        if tag in logged
    ]
    if pictures:
        inner = joined(
            [
                element("summary", "Training diagnostics"),
                element("div", joined(pictures), class_="figures"),
            ]
        )
        yield element("details", inner)


def _plain_curves(
    axes: plots.Axes, points: pd.DataFrame, runs: pd.DataFrame, tag: str, look: plots.Look
) -> None:
    plots.learning_curves(axes, points, runs, tag, look)
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()


def _findings(results: Results) -> Iterator[Html]:
    if len(results.findings):
        yield element("h2", "Health findings")
        yield table(results.findings.set_index("run"), long=("seen", "why", "try"))


def _configurations(results: Results) -> Iterator[Html]:
    configs, runs = results.configs, results.runs
    if configs.empty:
        return
    yield element("h2", "Configurations")
    swept = configs.attrs["swept"]
    examples = runs[runs["copy_of"] == ""].groupby("label", sort=False).head(1)
    if swept:
        yield element("p", "What differs between them:")
        differing = configs.loc[examples.index, swept].astype("object")
        differing = differing.where(differing.notna(), "None").set_axis(examples["label"])
        yield table(differing.rename_axis("configuration"))
    common = [
        name for name in configs if configs[name].map(str).nunique() == 1 and not is_seed(name)
    ]
    shared = configs.iloc[0][common].map(str).rename("value").rename_axis("binding").to_frame()
    heading = element("summary", f"What all share ({len(common)} bindings)")
    yield element("details", joined([heading, table(shared)]))


def _runs(results: Results, folder: Path) -> Iterator[Html]:
    runs = results.runs

    def linked(name: str) -> Html:
        target = Path(os.path.relpath(runs.at[name, "path"], folder.resolve())).as_posix()
        return element("a", name, href=quote(target) + "/")

    shown = runs.drop(columns=["path", "group", "task", "experiment", "diverged", "points"])
    heading = element("summary", f"{_count(len(runs), 'run')}, with links to their folders")
    yield element("h2", "Runs")
    yield element(
        "details", joined([heading, table(shown, long=("message",), drawn={"run": linked})])
    )


def _remarks(results: Results) -> Iterator[Html]:
    remarks = results.points.attrs["remarks"]
    if remarks:
        yield element("h2", "Lost or replaced points")
        yield element("ul", joined(element("li", remark) for remark in remarks))
