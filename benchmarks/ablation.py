"""What each technique is worth: tuned experiments with one thing changed.

python -m benchmarks.ablation          train what benchmarks/results/ablation.json lacks, print it
python -m benchmarks.ablation --docs   train nothing; write the table into docs/learning.md

Seeds are 100 and up: the goals are measured on others. A score is a seed's final return over 100
deterministic episodes.
"""

import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks.learning import configuration, run_seed, settings_of, versions
from benchmarks.learning_table import RESULTS
from benchmarks.pages import ROOT, markdown, put

SEEDS = flags.DEFINE_integer("ablation_seeds", 3, "Seeds 100 to 99 + N.", lower_bound=1)
DOCS = flags.DEFINE_bool("docs", False, "Write the table into docs/learning.md.")

PATH = RESULTS / "ablation.json"
PAGE = ROOT / "docs/learning.md"
HEADS = {
    "cartpole": "CategoricalHead",
    "acrobot": "CategoricalHead",
    "pendulum": "GaussianTanhHead",
    "mountaincar_continuous": "GaussianHead",
}
STEPS = {"acrobot": 100_000}  # shorter than the goal's budget, which would hide differences

TUNED = "the tuned file"
# One change each. What a file has already, and what its policy has no option for, is left out.
CHANGES: dict[str, list[str]] = {
    TUNED: [],
    "raw observations": ["Agent.observation_normalizer = None"],
    "normalized observations": ["Agent.observation_normalizer = @ObservationNormalizer()"],
    "raw rewards": ["Agent.reward_normalizer = None"],
    "normalized rewards": ["Agent.reward_normalizer = @RewardNormalizer()"],
    "raw advantages": ["Learner.normalize_advantages = False"],
    "constant learning rate": ["OptimizerFactory.learning_rate = %learning_rate"],
    "normalized values": ["Agent.value_normalizer = @ValueNormalizer()"],
    "policy output gain 1": ["{head}.gain = 1.0"],
    "Adam's epsilon 1e-7": ["OptimizerFactory.epsilon = 1e-7"],
    "no gradient clip": ["ClippedOptimizer.clip_norm = None"],
    "layer norm": ["MLP.layer_norm = True"],
    "no layer norm": ["MLP.layer_norm = False"],
    "ReLU": ["MLP.activation = 'relu'"],
    "tanh": ["MLP.activation = 'tanh'"],
    "entropy bonus 0.01": ["Learner.entropy_coef = 0.01"],
    "value clipping 0.2": ["CriticLoss.clip_range = 0.2"],
    "quadratic surrogate": ["Learner.policy_objective = @QuadraticSurrogate()"],
    "state-independent deviation": ["GaussianTanhHead.std = 'state_independent'"],
    "generalized exploration": ["{head}.std = @GSDE()"],
    "tanh-squashed Gaussian": ["Agent.policy_head = @GaussianTanhHead()"],
}
ONLY = {  # the policy heads that a change is for
    "state-independent deviation": ("GaussianTanhHead",),
    "generalized exploration": ("GaussianTanhHead", "GaussianHead"),
    "tanh-squashed Gaussian": ("GaussianHead",),
}


def settings(task: str, change: str) -> list[str]:
    """The bindings of a change to a task's file."""
    lines = [line.format(head=HEADS[task]) for line in CHANGES[change]]
    lines += [f"total_steps = {STEPS[task]}"] if task in STEPS else []
    return settings_of(task, lines, points=1, episodes=1)


def changes(task: str) -> Iterator[tuple[str, list[str]]]:
    """The changes that make a difference to a task's configuration, and their bindings."""
    tuned = configuration(task, settings(task, TUNED))
    for change in CHANGES:
        if HEADS[task] not in ONLY.get(change, HEADS[task]):
            continue
        changed = settings(task, change)
        if change == TUNED or configuration(task, changed) != tuned:
            yield change, changed


def train(seeds: int) -> None:
    """Train what is missing, and keep each score as soon as it is known.

    A task's scores belong to its tuned file: where that has changed, they are taken anew.
    """
    kept = load()
    for task in HEADS:
        tuned = configuration(task, settings(task, TUNED))
        if kept["tuned"].get(task) != tuned:
            kept["tuned"][task], kept["scores"][task] = tuned, {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        futures = {
            pool.submit(run_seed, task, seed, bindings): (task, change, str(seed))
            for task in HEADS
            for change, bindings in changes(task)
            for seed in range(100, 100 + seeds)
            if str(seed) not in kept["scores"][task].get(change, {})
        }
        for future in as_completed(futures):
            task, change, seed = futures[future]
            score = future.result()["final"]
            kept["scores"][task].setdefault(change, {})[seed] = score
            kept["versions"] = versions()
            PATH.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(f"{task}, {change}, seed {seed}: {score:.1f}", flush=True)


def load() -> dict[str, Any]:
    """What is kept: each task's tuned configuration, and the scores by task, change and seed."""
    return json.loads(PATH.read_text()) if PATH.exists() else {"tuned": {}, "scores": {}}


def table() -> str:
    """Mean over seeds with the worst seed in brackets, as Markdown."""
    scores = load()["scores"]
    rows = []
    for change in CHANGES:
        found = [list(scores.get(task, {}).get(change, {}).values()) for task in HEADS]
        rows.append([change, *(f"{np.mean(f):.1f} ({min(f):.1f})" if f else "-" for f in found)])
    return markdown(["change", *(task.replace("_", " ") for task in HEADS)], rows)


def main(arguments: list[str]) -> int:
    """Train, or write the table."""
    if DOCS.value:
        put(PAGE, "ablation", table())
    else:
        train(SEEDS.value)
    print(table())
    return 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
