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
from benchmarks.pages import README, markdown, put, show

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parent.parent / "docs/images/learning.png"

WRITE_README = flags.DEFINE_bool("readme", False, "Renew the README's table and picture.")


@dataclass(frozen=True)
class Goal:
    """What the deterministic policy must reach after `steps` environment steps.

    Args:
      steps: the budget; a result that used more does not count.
      iqm: least interquartile mean over the seeds.
      worst: least return of any seed.
      seeds: how many there must be.
      along: (steps, IQM): what the curve must have reached on the way.
      solved: (return, steps): what the median seed must reach, and by when.
      published: the on-policy results that the goal is set by: algorithm, return, steps.
    """

    steps: int
    iqm: float | None = None
    worst: float | None = None
    seeds: int = 10
    along: tuple[int, float] | None = None
    solved: tuple[float, int] | None = None
    published: tuple[tuple[str, float, int], ...] = ()

    def misses(self, result: dict[str, Any]) -> list[str]:
        """What a result falls short of, in words; empty where the goal is met."""
        returns = finals(result)
        measured = [("IQM", spread(returns)["iqm"], self.iqm), ("worst", returns.min(), self.worst)]
        if self.along is not None:
            steps, least = self.along
            measured.append((f"IQM at {steps:,}", iqm_at(result, steps), least))
        missed = [
            f"{name} not measured" if np.isnan(value) else f"{name} {least - value:.1f} short"
            for name, value, least in measured
            if least is not None and not value >= least
        ]
        if self.solved is not None:
            threshold, steps = self.solved
            if not median_steps(result, threshold) <= steps:
                missed.append(f"{threshold:g} after {steps:,} steps")
        if len(returns) < self.seeds:
            missed.append(f"{len(returns)} of {self.seeds} seeds")
        if result["total_steps"] > self.steps:
            missed.append(f"{result['total_steps']:,} of {self.steps:,} steps")
        return missed

    def __str__(self) -> str:
        parts = [f"IQM ≥ {self.iqm:g}"] if self.iqm is not None else []
        parts += [f"worst ≥ {self.worst:g}"] if self.worst is not None else []
        if self.along is not None:
            parts.append(f"{self.along[1]:g} at {self.along[0] // 1000}k")
        if self.solved is not None:
            parts.append(f"median seed at {self.solved[0]:g} by {self.solved[1] // 1000}k")
        return ", ".join(parts) + f" ({steps_in_words(self.steps)})"


# Published: RL Baselines3 Zoo's benchmark.md (one tuned run a row), CleanRL's benchmark tables
# (training returns at the end of the budget), RPO's table in CleanRL's docs. Their MuJoCo figures
# are from versions 2 to 4 of the environments. "worst" of a classic task: below it a seed failed.
GOALS = {
    "cartpole": Goal(
        50_000,
        iqm=500,
        worst=475,
        solved=(475, 40_000),
        published=(("PPO", 500, 100_000), ("DQN", 500, 50_000)),
    ),
    "cartpole_a2c": Goal(300_000, iqm=500, worst=475, published=(("A2C", 500, 500_000),)),
    "acrobot": Goal(
        500_000, iqm=-75, worst=-100, published=(("PPO", -73.5, 1_000_000), ("A2C", -83.4, 500_000))
    ),
    "mountaincar": Goal(1_000_000, iqm=-110, worst=-199, published=(("PPO", -110.4, 1_000_000),)),
    "mountaincar_continuous": Goal(
        100_000, iqm=93, worst=90, published=(("A2C", 91.2, 100_000), ("PPO", 88.3, 20_000))
    ),
    "pendulum": Goal(
        100_000,
        iqm=-155,
        worst=-250,
        published=(("PPO", -172.2, 100_000), ("A2C", -163.0, 1_000_000)),
    ),
    "pendulum_200k": Goal(200_000, iqm=-150, worst=-250, published=(("A2C", -163.0, 1_000_000),)),
    "lunarlander": Goal(
        1_000_000, iqm=260, along=(300_000, 200), published=(("PPO", 242.1, 1_000_000),)
    ),
    "lunarlander_continuous": Goal(1_000_000, iqm=275, published=(("PPO", 270.9, 1_000_000),)),
    "bipedalwalker": Goal(
        3_000_000, iqm=300, published=(("A2C", 299.8, 5_000_000), ("PPO", 213.3, 5_000_000))
    ),
    "inverted_pendulum": Goal(300_000, iqm=1000, seeds=5, published=(("PPO", 963, 1_000_000),)),
    "inverted_double_pendulum": Goal(
        1_000_000, iqm=9200, seeds=5, published=(("PPO", 5_626, 8_000_000),)
    ),
    "reacher": Goal(
        1_000_000,
        iqm=-4.0,
        seeds=5,
        published=(("RPO", -3.93, 8_000_000), ("PPO", -4.65, 8_000_000)),
    ),
    "swimmer": Goal(
        1_000_000,
        iqm=340,
        seeds=5,
        published=(("PPO", 281.6, 1_000_000), ("A2C", 200.6, 1_000_000)),
    ),
    "hopper": Goal(
        1_000_000,
        iqm=3000,
        seeds=5,
        published=(("PPO", 2_410, 1_000_000), ("PPO", 2_741, 8_000_000)),
    ),
    "walker2d": Goal(
        1_000_000,
        iqm=4000,
        seeds=5,
        published=(("PPO", 3_479, 1_000_000), ("RPO", 3_665, 8_000_000)),
    ),
    "halfcheetah": Goal(1_000_000, iqm=6500, seeds=5, published=(("PPO", 5_819, 1_000_000),)),
    "ant": Goal(
        1_000_000,
        iqm=2800,
        seeds=5,
        published=(("PPO", 1_327, 1_000_000), ("RPO", 2_703, 8_000_000)),
    ),
}


def published_in_words(goal: Goal) -> str:
    """PPO 2,410 (1M), PPO 2,741 (8M)."""
    return ", ".join(
        f"{algorithm} {value:,} ({steps_in_words(steps)})".replace("-", "−")
        for algorithm, value, steps in goal.published
    )


def steps_in_words(steps: int) -> str:
    """300k, 1M."""
    return f"{steps / 1e6:g}M" if steps >= 1_000_000 else f"{steps // 1000}k"


def result_path(name: str) -> Path:
    """The result file of an experiment."""
    return RESULTS / f"{name}.json"


def finals(result: dict[str, Any]) -> np.ndarray:
    """Final evaluation returns, one a seed."""
    return np.array([seed["final"] for seed in result["seeds"].values()])


def curves(result: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations along the budget: steps [P], returns [P, seeds]."""
    points = [seed["curve"] for seed in result["seeds"].values()]
    steps = np.array([point[0] for point in points[0]], np.float64)
    return steps, np.array([[point[1] for point in curve] for curve in points]).T


def iqm_at(result: dict[str, Any], steps: int) -> float:
    """Interquartile mean over seeds of the last evaluation within `steps`; NaN without one."""
    at, returns = curves(result)
    within = np.flatnonzero(at <= steps)
    return float(interquartile_mean(returns[within[-1]][:, None])) if len(within) else np.nan


def median_steps(result: dict[str, Any], threshold: float) -> float:
    """Steps after which the median seed was first evaluated at the threshold; inf if never."""
    reached = [
        next((step for step, value in seed["curve"] if value >= threshold), np.inf)
        for seed in result["seeds"].values()
    ]
    return float(np.median(reached))


def load(name: str) -> dict[str, Any] | None:
    """The committed result of an experiment."""
    path = result_path(name)
    return json.loads(path.read_text()) if path.exists() else None


def measured() -> list[str]:
    """The experiments with a committed result."""
    return [name for name in GOALS if result_path(name).exists()]


def rows(names: Sequence[str]) -> list[list[str]]:
    """The table's cells; the last column says whether the goal is met."""
    return [_row(name, GOALS.get(name), load(name)) for name in names]


def _row(name: str, goal: Goal | None, result: dict[str, Any] | None) -> list[str]:
    aim, published = (str(goal), published_in_words(goal)) if goal else ("none", "")
    if result is None:
        return [name, "-", "-", "-", "-", "-", "-", aim, published, "not measured"]
    returns = finals(result)
    middle = spread(returns)
    missed = goal.misses(result) if goal else []
    threshold = None if goal is None else goal.solved[0] if goal.solved else goal.iqm
    reached = np.inf if threshold is None else median_steps(result, threshold)
    seconds = np.median([seed["seconds"] for seed in result["seeds"].values()])
    return [
        name,
        f"{result['total_steps']:,}",
        str(len(returns)),
        "{iqm:.1f} [{low:.1f}, {high:.1f}]".format(**middle),
        f"{returns.min():.1f}",
        f"{reached:,.0f}" if np.isfinite(reached) else "-",
        f"{seconds:.0f}",
        aim,
        published,
        "no: " + ", ".join(missed) if missed else "yes" if goal else "",
    ]


HEADER = [
    "experiment",
    "env steps",
    "seeds",
    "IQM [95 % interval]",
    "worst seed",
    "median steps to goal",
    "seconds a seed",
    "goal (steps)",
    "published (steps)",
    "met",
]


def print_table(names: Sequence[str]) -> int:
    """Print goals beside results and a summary line; returns the exit code."""
    cells = rows(names)
    show(HEADER, cells, width=180)
    met = sum(row[-1] == "yes" for row in cells)
    absent = sum(row[-1] == "not measured" for row in cells)
    print(f"learning: {met} of {len(cells)} goals met, {absent} not measured")
    return 0 if met == len(cells) else 1


def write_readme(names: Sequence[str]) -> None:
    """Put the table between the README's marks, and draw the curves."""
    put(README, "learning table", markdown(HEADER, rows(names)))
    draw(measured())


def draw(names: Sequence[str]) -> None:
    """One panel an experiment: each seed, their interquartile mean, the goal, what is published."""
    import matplotlib.pyplot as plt

    columns = min(len(names), 4)
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(3.0 * columns, 2.4 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis, name in zip(axes.flat, names, strict=False):
        result = load(name)
        assert result is not None, name
        steps, returns = curves(result)
        steps, returns = (
            np.append(steps, result["total_steps"]),
            np.vstack([returns, finals(result)]),
        )
        seeds = axis.plot(steps, returns, color="#9ecae1", linewidth=0.7)
        middle = interquartile_mean(returns[..., None])
        iqm = axis.plot(steps, middle, color="#08519c", linewidth=2)
        for _, value, _ in GOALS[name].published:
            anchor = axis.axhline(value, color="#636363", linewidth=1, linestyle=":")
        if GOALS[name].iqm is not None:
            goal = axis.axhline(GOALS[name].iqm, color="#e6550d", linewidth=1, linestyle="--")
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(
        [seeds[0], iqm[0], goal, anchor],
        ["each seed", "interquartile mean", "goal", "published"],
        loc="outside upper center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("evaluation return", fontsize=9)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main(arguments: list[str]) -> int:
    """Print the table."""
    if WRITE_README.value:
        write_readme(list(GOALS))
    return print_table(list(GOALS))


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
