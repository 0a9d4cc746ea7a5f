"""The learning goals beside the results that are kept in benchmarks/results/.

python -m benchmarks.learning_table            print the table; exit 1 where a goal is missed
python -m benchmarks.learning_table --readme   also renew the README's table and picture
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from analysis.statistics import interquartile_mean
from analysis.summary import spread

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
PICTURE = Path(__file__).parent.parent / "docs/images/learning.png"
MARKS = ("<!-- learning table -->\n", "<!-- end of learning table -->")

WRITE_README = flags.DEFINE_bool("readme", False, "Renew the README's table and picture.")


@dataclass(frozen=True)
class Goal:
    """What the final evaluation must reach: the interquartile mean over seeds, the worst seed."""

    iqm: float | None = None
    worst: float | None = None
    seeds: int = 10
    published: str = ""

    def met(self, finals: np.ndarray) -> bool:
        """Whether the results of enough seeds reach it."""
        iqm, worst = spread(finals)["iqm"], finals.min()
        return (
            len(finals) >= self.seeds
            and (self.iqm is None or iqm >= self.iqm)
            and (self.worst is None or worst >= self.worst)
        )

    def __str__(self) -> str:
        parts = [f"IQM ≥ {self.iqm:g}"] if self.iqm is not None else []
        parts += [f"worst ≥ {self.worst:g}"] if self.worst is not None else []
        return ", ".join(parts)


# The published figures are RL Baselines3 Zoo's benchmark.md: one tuned run a row.
GOALS = {
    "pendulum": Goal(iqm=-165, worst=-250, published="PPO −172.2 (100k)"),
    "cartpole": Goal(worst=475, published="PPO 500 (100k)"),
    "cartpole_a2c": Goal(worst=475, published="A2C 500 (500k)"),
    "acrobot": Goal(iqm=-90, published="PPO −73.5 (1M)"),
    "mountaincar_continuous": Goal(iqm=90, published="PPO 88.3 (20k)"),
}


def result_path(name: str) -> Path:
    """The result file of an experiment."""
    return RESULTS / f"{name}.json"


def finals(result: dict[str, Any]) -> np.ndarray:
    """Final evaluation returns, one a seed."""
    return np.array([seed["final"] for seed in result["seeds"].values()])


def rows(names: Sequence[str]) -> list[list[str]]:
    """The table's cells; the last column says whether the goal is met."""
    table = []
    for name in names:
        goal = GOALS.get(name, Goal())
        if not result_path(name).exists():
            table.append([name, "-", "-", "-", "-", str(goal), goal.published, "no result"])
            continue
        result = json.loads(result_path(name).read_text())
        returns = finals(result)
        middle = spread(returns)
        table.append(
            [
                name,
                f"{result['total_steps']:,}",
                str(len(returns)),
                "{iqm:.1f} [{low:.1f}, {high:.1f}]".format(**middle),
                f"{returns.min():.1f}",
                str(goal) or "none",
                goal.published,
                "yes" if goal.met(returns) else "NO",
            ]
        )
    return table


HEADER = [
    "experiment",
    "env steps",
    "seeds",
    "IQM [95 % interval]",
    "worst seed",
    "goal",
    "published",
    "met",
]


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table as Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    lines += ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join(lines) + "\n"


def print_table(names: Sequence[str]) -> int:
    """Print goals beside results and a summary line; returns the exit code."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEADER)
    cells = rows(names)
    for row in cells:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    met = sum(row[-1] == "yes" for row in cells)
    print(f"learning: {met} of {len(cells)} goals met")
    return 0 if met == len(cells) else 1


def write_readme(names: Sequence[str]) -> None:
    """Put the table between the README's marks, and draw the curves."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    README.write_text(before + MARKS[0] + markdown(rows(names)) + MARKS[1] + after, "utf-8")
    draw(names)


def draw(names: Sequence[str]) -> None:
    """One panel an experiment: interquartile mean over seeds, each seed, the goal."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 2.8))
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        curves = [s["curve"] for s in json.loads(result_path(name).read_text())["seeds"].values()]
        steps = np.array([point[0] for point in curves[0]])
        values = np.array([[point[1] for point in curve] for curve in curves])
        axis.plot(steps, values.T, color="#9ecae1", linewidth=0.7)
        axis.plot(steps, interquartile_mean(values.T[..., None]), color="#08519c", linewidth=2)
        goal = GOALS[name].iqm if GOALS[name].iqm is not None else GOALS[name].worst
        if goal is not None:
            axis.axhline(goal, color="#e6550d", linewidth=1, linestyle="--")
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("evaluation return", fontsize=9)
    figure.tight_layout()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main(arguments: list[str]) -> int:
    """Print the table."""
    if WRITE_README.value:
        write_readme(list(GOALS))
    return print_table(list(GOALS))


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
