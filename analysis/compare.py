"""Compare two groups of runs in the terminal: does A beat B?

python -m analysis.compare 'runs/pendulum-ppo/*' 'runs/pendulum-a2c/*'
"""

import sys
from collections.abc import Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.commands import parser, run
from analysis.comparison import Comparison, compare
from analysis.errors import AnalysisError
from analysis.folders import find_runs
from analysis.load import load_configs, load_runs, load_status
from analysis.summary import group_summary, return_tag, run_summary
from analysis.wording import number

ROWS = 20  # differing bindings and seeds shown
SHORT = 16  # characters of a name that fits a column


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, and print tables and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "paths", nargs="+", metavar="RUN_OR_GLOB", help="two groups: runs, folders or 'patterns'"
    )
    given = arguments.parse_args(argv)
    paths: list[str] = given.paths
    if len(paths) != 2:
        raise AnalysisError(
            f"name two groups of runs, not {len(paths)}; put patterns into quotes ('runs/a/*')"
        )
    status = load_status(paths)
    sides = [_members(status, path) for path in paths]
    shared = sides[0].index.intersection(sides[1].index)
    if len(shared):
        raise AnalysisError(f"{shared[0]} is on both sides; name different runs")
    table = load_runs(paths, tags=given.tag, names=given.names)
    tag = given.tag or return_tag(table)
    summaries = [run_summary(table, side, tag) for side in sides]
    result = compare(*summaries)
    differences = config_differences(load_configs(paths), [side.index for side in sides])
    _print(result, summaries, differences, tag)


def _print(
    result: Comparison, summaries: Sequence[pd.DataFrame], differences: pd.DataFrame, tag: str
) -> None:
    console = Console(highlight=False)
    names = (result.first, result.second)
    if max(map(len, names)) > SHORT:
        console.print(
            "", *(f"{side}  {name}" for side, name in zip("AB", names, strict=True)), sep="\n"
        )
        names = ("A", "B")
    console.print(_sides(names, summaries, tag))
    if result.pairs:
        console.print(_pairs(names, result, summaries))
    if len(differences):
        console.print(_differences(names, differences))
    console.print(result.sentence())
    console.print(
        f"A run of {names[0]} beats one of {names[1]} with probability {100 * result.wins:.0f} %."
    )
    ends = [summary["last_step"].max() for summary in summaries]
    if min(ends) < 0.9 * max(ends):
        console.print(
            f"Mind the lengths: {result.first} ends at step {number(ends[0])}, "
            f"{result.second} at {number(ends[1])}."
        )


def _members(status: pd.DataFrame, path: str) -> pd.DataFrame:
    return status[status["path"].isin({str(found.path) for found in find_runs(path)})]


def config_differences(configs: pd.DataFrame, sides: Sequence[pd.Index]) -> pd.DataFrame:
    """Return the bindings that differ between two groups of runs: one row each, columns 0 and 1."""
    first, second = (configs.loc[side[0]].map(_shown) for side in sides)
    varied = [name for name in configs.attrs["swept"] if first[name] != second[name]]
    return pd.DataFrame({0: first[varied], 1: second[varied]})


def _shown(value: object) -> str:
    return "(not set)" if value is None or value is pd.NA or value != value else str(value)


def _grid(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right", overflow="fold", no_wrap=len(column) <= SHORT)
    return table


def _sides(names: tuple[str, str], summaries: Sequence[pd.DataFrame], tag: str) -> Table:
    grid = _grid(
        f"Final {tag} (mean of the last tenth of its points)",
        "",
        "runs",
        "mean",
        "std",
        "IQM",
        "95 % interval",
        "diverged",
    )
    for name, summary in zip(names, summaries, strict=True):
        group = group_summary(summary).iloc[0]
        grid.add_row(
            name,
            str(group["n"]),
            number(group["mean"]) or "–",
            number(group["std"]) or "–",
            number(group["iqm"]) or "–",
            f"{number(group['low'])} to {number(group['high'])}" if group["scored"] > 1 else "–",
            str(group["diverged"] or "–"),
        )
    return grid


def _pairs(names: tuple[str, str], result: Comparison, summaries: Sequence[pd.DataFrame]) -> Table:
    seeds = summaries[0].loc[summaries[0]["copy_of"] == "", "seed"].sort_values().tolist()
    grid = _grid("Seed by seed", "seed", *names, "difference")
    rows = zip(seeds, result.first_finals, result.second_finals, strict=True)
    for seed, a, b in list(rows)[:ROWS]:
        grid.add_row(str(seed), number(a), number(b), ("+" if a > b else "") + number(a - b))
    return grid


def _differences(names: tuple[str, str], differences: pd.DataFrame) -> Table:
    grid = _grid("What differs in their configurations", "binding", *names)
    for name, row in differences.head(ROWS).iterrows():
        grid.add_row(str(name), row[0], row[1])
    if len(differences) > ROWS:
        grid.add_row(f"… and {len(differences) - ROWS} more", "", "")
    return grid


if __name__ == "__main__":
    sys.exit(run(main))
