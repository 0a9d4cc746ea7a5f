# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
"""
# Two groups of runs: does A beat B?

Runs with the same configuration and different seeds form a group. One seed says next to nothing;
five say something; the interval says how much.

The runs here are **synthetic**: `python -m analysis.notebooks.demo_data runs/demo` makes them up.
Set `paths` to two groups of your own, and `THRESHOLD` to a return that counts as learned.
"""

# %%
from pathlib import Path

import matplotlib.pyplot as plt

import analysis
from analysis import load_runs, load_status, plots
from analysis.comparison import compare
from analysis.summary import curve_tag, group_summary, run_summary

RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"
paths = [RUNS / "ppo", RUNS / "a2c"]
TAG, THRESHOLD = "eval/mean_reward", -400.0
NOTE = "synthetic data"  # what the figures say of their data

# %%
table, status = load_runs(paths), load_status(paths)
runs = run_summary(table, status, TAG, threshold=THRESHOLD)
runs["label"] = runs.index.str.split("/").str[0]  # short names: the folders in `paths`
groups = group_summary(runs)
groups.transpose().round(1)

# %%
first, second = (runs[runs["label"] == label] for label in groups.index)
comparison = compare(first, second)
print(comparison.sentence())
print(f"A run of the first beats one of the second with probability {comparison.wins:.2f}.")

# %% [markdown]
"""
The certainty is one minus the p-value of a paired t-test (the seeds are the same on both sides). It
answers whether there is a difference at all; the interval answers how large it is.
"""

# %%
look = plots.look_of(runs)
figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
plots.learning_curves(axes, table, runs, curve_tag(table, TAG), look)
axes.set_title(NOTE)
plt.show()

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
plots.intervals(axes[0], groups, look)
plots.profiles(axes[1], runs, look)
figure.suptitle(NOTE)
plt.show()

# %% [markdown]
"""
## Sample efficiency

How many environment steps did each run need to reach the threshold? Runs that never did have no
number; `reached` counts the others.
"""

# %%
runs[["label", "seed", "steps_to_threshold"]].round(0)

# %%
groups[["n", "reached", "steps_to_threshold", "area"]].round(0)
