# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# Figures and tables for a paper

Figures at their printed size, with fonts that stay text in the PDF, and tables as LaTeX.

The runs here are **synthetic**: `python -m analysis.notebooks.demo_data runs/demo` makes them up.
Don't publish them.
"""

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import analysis
from analysis import load_runs, load_status, plots, statistics
from analysis.export import latex
from analysis.summary import curve_tag, group_summary, run_summary

RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"
FIGURES = RUNS / "figures"
FIGURES.mkdir(exist_ok=True)
TAG = "eval/mean_reward"

# A column of a two-column paper is 3.3 inches wide; its captions are set in about 8 points.
plt.rcParams.update(
    {
        "font.size": 8,
        "axes.labelsize": 8,
        "legend.fontsize": 7,
        "lines.linewidth": 1.2,
        "pdf.fonttype": 42,
        "savefig.dpi": 300,
    }
)

# %%
paths = [RUNS / "ppo", RUNS / "a2c"]
table, status = load_runs(paths), load_status(paths)
runs = run_summary(table, status, TAG)
runs["label"] = runs.index.str.split("/").str[0]  # short names: the folders in `paths`
groups, look = group_summary(runs), plots.look_of(runs)

figure, axes = plt.subplots(figsize=(3.3, 2.3), layout="constrained")
plots.learning_curves(axes, table, runs, curve_tag(table, TAG), look)
axes.set_ylabel("evaluation return")
figure.savefig(FIGURES / "curves.pdf")
plt.show()

# %%
figure, axes = plt.subplots(1, 2, figsize=(6.9, 1.9), layout="constrained")
plots.intervals(axes[0], groups, look)
plots.profiles(axes[1], runs, look)
figure.savefig(FIGURES / "statistics.pdf")
plt.show()

# %% [markdown]
"""
## Aggregates

Over several tasks, normalize each return first (0 for random actions, 1 for a reference agent) and
give the statistics an array of shape [runs, tasks]. Here there is one task, Pendulum-v1: random
actions return about −1,230, and −150 is about as good as it gets.
"""

# %%
rows: dict[str, dict[str, str]] = {}
for label, group in runs.groupby("label"):
    scores = (group["final"].to_numpy()[:, None] + 1230) / (1230 - 150)
    generator = np.random.default_rng(0)
    indices = statistics.stratified_indices(generator, 2000, *scores.shape)
    for name in ("interquartile_mean", "mean", "optimality_gap"):
        estimate = getattr(statistics, name)
        low, high = statistics.bootstrap_interval(scores, estimate, indices)
        rows.setdefault(name, {})[label] = f"{estimate(scores):.3f} ({low:.3f} to {high:.3f})"
pd.DataFrame(rows)

# %%
print(latex(groups[["n", "mean", "std", "iqm", "low", "high"]].round(1)))
