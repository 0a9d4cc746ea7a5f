# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# A sweep

Which hyperparameters matter, which values are good, and where does training break?

The runs here are **synthetic**: `python -m analysis.notebooks.demo_data runs/demo` makes up 27
points of three seeds each over gamma, reward scale and clip norm. Set `sweep` to a folder of your
own.
"""

# %%
import itertools
from pathlib import Path

import matplotlib.pyplot as plt

import analysis
from analysis import load_configs, load_runs, load_status, plots
from analysis.importance import importance
from analysis.summary import curve_tag, group_summary, run_summary

RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"
sweep = RUNS / "sweep"
TAG = "eval/mean_reward"
NOTE = "synthetic data"  # what the figures say of their data

# %%
table, status, configs = load_runs(sweep), load_status(sweep), load_configs(sweep)
swept = configs.attrs["swept"]
runs = run_summary(table, status, TAG)
groups = group_summary(runs)
print(f"{len(runs)} runs of {len(groups)} points over {', '.join(swept)}")
groups[["n", "scored", "diverged", "mean", "iqm", "low", "high"]].head(8).round(1)

# %% [markdown]
"""
The swept hyperparameters are columns of the table, so that pandas answers questions directly.
"""

# %%
last = table[table["tag"] == TAG].groupby("run", observed=True).tail(1)
last.groupby(swept[:2], dropna=False)["value"].mean().unstack().round(0)

# %% [markdown]
"""
## What matters

The share of the variance of final returns that each hyperparameter explains on its own. A large
share of "seeds" would mean that the sweep mostly measured luck.
"""

# %%
shares = importance(runs["final"], configs, swept)
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
plots.importance_bars(axes, shares)
axes.set_title(NOTE)
plt.show()

# %%
pairs = list(itertools.combinations(swept, 2))
size = (4.7 * len(pairs), 3.8)
figure, grid = plt.subplots(1, len(pairs), figsize=size, layout="constrained", squeeze=False)
for axes, (x, y) in zip(grid.flat, pairs, strict=True):
    plots.heat_map(axes, runs, configs, x, y)
figure.suptitle(NOTE)
plt.show()

# %% [markdown]
"""
## Where it broke

Diverged runs have no final return, and are never dropped silently: they are counted in every table.
"""

# %%
broken = runs[runs["diverged"]].join(status["message"])
broken[["label", "seed", "nonfinite", "last_step", "message"]]

# %% [markdown]
"""
## The best points

The winner of a sweep was picked because it looked good, so its return is biased upwards: repeat the
best few with new seeds before believing them.
"""

# %%
figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
plots.learning_curves(axes, table, runs, curve_tag(table, TAG), plots.look_of(runs))
axes.set_title(NOTE)
plt.show()
