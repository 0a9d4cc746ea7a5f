"""PPO, A2C and one-step TD on CartPole: draws docs/images/algorithms.png from the kept results.

make learn EXPERIMENTS=cartpole,cartpole_a2c,cartpole_td     trains what is missing
python -m benchmarks.algorithms                              draws and prints the comparison
"""

import sys
from pathlib import Path

import numpy as np
from absl import app

from analysis.statistics import interquartile_mean
from analysis.summary import spread
from benchmarks.learning_table import curves, finals, load, median_steps

PICTURE = Path(__file__).parent.parent / "docs/images/algorithms.png"
EXPERIMENTS = {
    "cartpole": ("PPO", "#08519c"),
    "cartpole_a2c": ("A2C", "#e6550d"),
    "cartpole_td": ("one-step TD", "#31a354"),
}
SOLVED = 475


def main(arguments: list[str]) -> int:
    """Draw the curves over environment steps; print the table beside them."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    print("| algorithm | steps | seeds | IQM | worst seed | median steps to 475 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (label, color) in EXPERIMENTS.items():
        result = load(name)
        if result is None:
            print(f"{name} has no result: make learn EXPERIMENTS={name}", file=sys.stderr)
            return 1
        steps, returns = curves(result)
        last = finals(result)
        steps, returns = np.append(steps, result["total_steps"]), np.vstack([returns, last])
        low, high = np.quantile(returns, (0.25, 0.75), axis=1)
        axis.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
        axis.plot(steps, interquartile_mean(returns[..., None]), color=color, label=label)
        solved = median_steps(result, SOLVED)
        print(
            f"| {label} | {result['total_steps']:,} | {len(last)} | {spread(last)['iqm']:.1f} | "
            f"{last.min():.1f} | {f'{solved:,.0f}' if np.isfinite(solved) else 'never'} |"
        )
    axis.axhline(SOLVED, color="#888888", linewidth=1, linestyle="--")
    axis.set_xscale("log")
    axis.set_xlabel("environment steps")
    axis.set_ylabel("evaluation return")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=110)
    return 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
