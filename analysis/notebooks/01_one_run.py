# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# One run

What did a run do, and did it learn? This notebook reads one run folder: its configuration, its
state and every point that it logged.

The runs here are **synthetic**: `python -m analysis.notebooks.demo_data runs/demo` makes them up in
a few seconds. Set `run` to a folder of your own, and `NOTE` to what the figures should say of it.
"""

# %%
from pathlib import Path

import matplotlib.pyplot as plt

import analysis
from analysis import load_configs, load_runs, load_status, plots
from analysis.styles import COLORS
from analysis.summary import run_summary

RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"
run = RUNS / "ppo" / "seed0"
NOTE = "synthetic data"  # what the figures say of their data

# %% [markdown]
"""
One row per point, one tag below the other. `restart` counts the sessions of a run that was resumed.
"""

# %%
table = load_runs(run)
table.groupby("tag", observed=True)["value"].describe().round(3)

# %%
status = load_status(run)
status.transpose()

# %%
load_configs(run).transpose()

# %% [markdown]
"""
## The return

The evaluation return is the one to judge by: greedy actions, separate environments. acx evaluates
once, at the end, unless `Evaluation.every` is set. The training return lags behind it and carries
the noise of exploration.
"""

# %%
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for tag, color in zip(("eval/mean_reward", "rollout/ep_rew_mean"), COLORS, strict=False):
    points = table[table["tag"] == tag]
    marker = "o" if len(points) < 3 else ""
    axes.plot(points["step"], points["value"], color=color, marker=marker, label=tag)
axes.set(xlabel="environment steps", ylabel="return", title=NOTE)
axes.legend()
plt.show()

# %% [markdown]
"""
## Is training healthy?

A PPO run that is well has a KL divergence around 0.01, a clip fraction between 0.05 and 0.2, an
explained variance that rises towards 1, and an entropy that falls slowly.
"""

# %%
tags = ["train/approx_kl", "train/clip_fraction", "train/explained_variance", "train/entropy"]
figure, grid = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", sharex=True)
for tag, axes in zip(tags, grid.flat, strict=True):
    summary = run_summary(table, status, tag)
    plots.learning_curves(axes, table, summary, tag, plots.look_of(summary))
    axes.get_legend().remove()
figure.suptitle(NOTE)
plt.show()
