"""The tables that a sweep prints: its trials before they run, its results afterwards."""

import math

import pandas as pd
from rich.console import Console
from rich.table import Table

from sweeps.folder import Progress
from sweeps.plan import Plan
from sweeps.summary import by_hyperparameter, by_point, edge_warnings, trial_scores

POINTS_SHOWN = 5


def plan_table(plan: Plan, progress: dict[str, Progress]) -> Table:
    """All points with their seeds, and what is done of them."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("point", overflow="fold")
    table.add_column("seeds")
    table.add_column("steps", justify="right")
    table.add_column("done", justify="right")
    for point in plan.points:
        trials = [trial for trial in plan.trials if trial.point == point]
        done = sum(progress[trial.name].state == "finished" for trial in trials)
        seeds = ", ".join(str(trial.seed) for trial in trials)
        table.add_row(point, seeds, f"{trials[0].total_steps:,}", f"{done} of {len(trials)}")
    return table


def _statistics(title: str, labels: list[str]) -> Table:
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        header_style="bold",
        title=title,
        title_justify="left",
        title_style="bold cyan",
    )
    for label in labels:
        table.add_column(label, overflow="fold")
    for label in ("mean", "IQM", "95 % interval"):
        table.add_column(label, justify="right")
    table.add_column("n")
    return table


def decimals(values: pd.DataFrame) -> int:
    """How many decimals show four digits of the largest of all figures."""
    largest = float(values[["mean", "iqm", "low", "high"]].abs().max(axis=None))
    return 3 if not largest > 0 else min(max(3 - math.floor(math.log10(largest)), 0), 6)


def _figures(row: "pd.Series[float]", places: int) -> list[str]:
    def text(name: str) -> str:
        return "" if math.isnan(row[name]) else f"{row[name]:,.{places}f}"

    interval = f"{text('low')} to {text('high')}" if text("low") else ""
    count = f"{row['scored']:.0f}"
    if row["scored"] < row["n"]:
        count += f" of {row['n']:.0f}"
    return [text("mean"), text("iqm"), interval, count]


def print_results(
    console: Console, plan: Plan, progress: dict[str, Progress], best: str | None
) -> None:
    """Returns by hyperparameter, the best points, and warnings."""
    scores = trial_scores(plan, progress)
    table = _statistics("evaluation return by hyperparameter", ["", ""])
    shown = ""
    statistics = by_hyperparameter(plan, scores)
    for (name, value), row in statistics.iterrows():
        if shown and name != shown:
            table.add_row()
        figures = _figures(row, decimals(statistics))
        table.add_row("" if name == shown else str(name), str(value), *figures)
        shown = str(name)
    points = (
        by_point(scores).sort_values("iqm", ascending=False, kind="stable").dropna(subset="iqm")
    )
    ranked = _statistics("best points", ["point"])
    for point, row in points.head(POINTS_SHOWN).iterrows():
        style = "bold" if point == best else ""
        ranked.add_row(str(point), *_figures(row, decimals(points)), style=style)
    console.print(table, "", ranked, "")
    failed = {name: p for name, p in progress.items() if p.state == "failed"}
    for name, found in failed.items():
        console.print(
            f"[red]failed[/red]  {name}: {found.message}", soft_wrap=True, highlight=False
        )
    if best is not None:
        for warning in edge_warnings(plan, plan.points[best]):
            console.print(
                f"[yellow]at the edge[/yellow]  {warning}", soft_wrap=True, highlight=False
            )
