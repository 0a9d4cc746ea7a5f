"""How acx's cost grows: PPO on CartPole over environments, network width and rollout length.

python -m benchmarks.scaling [--runs=3] [--draw]

One setting at a time is changed from 8 environments × 256 steps, 10 epochs, minibatches of 256,
64×64 units; the number of environments keeps the 2,048 rows of a rollout where it can. Each setting
is a process of its own, run three times in turn with the others; medians are printed, drawn and
kept. Memory over ten million steps is measured by `python -m benchmarks.faults --parts=soak`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from absl import app, flags

from benchmarks.pages import PERFORMANCE, markdown, put, show
from benchmarks.workers import measure, median

HERE = Path(__file__).parent
RESULT = HERE / "results/scaling.json"
PICTURE = HERE.parent / "docs/images/scaling.png"

RUNS = flags.DEFINE_integer("runs", 3, "Runs of each setting, in turn.", lower_bound=1)
DRAW = flags.DEFINE_bool("draw", False, "Only print and draw what was measured last.")

BASE = {
    "algorithm": "ppo",
    "env_id": "CartPole-v1",
    "num_envs": 8,
    "rollout_length": 256,
    "epochs": 10,
    "minibatch_size": 256,
    "iterations": 10,
}


def _rows(num_envs: int) -> dict[str, Any]:
    return {"num_envs": num_envs, "rollout_length": max(2_048 // num_envs, 16)}


def _width(width: int) -> dict[str, Any]:
    return {"bindings": [f"MLP.hidden_sizes = ({width}, {width})"]}


ON_ALL_CORES = {"vectorization": "parallel"}
NATIVE = {"vectorization": "vector_entry_point"}
SETTINGS: dict[str, dict[int, dict[str, Any]]] = {
    "environments in Python": {n: _rows(n) for n in (1, 4, 16, 64, 256, 1024)},
    "environments on all cores": {n: _rows(n) | ON_ALL_CORES for n in (4, 16, 64, 256, 1024)},
    "environments, native": {n: _rows(n) | NATIVE for n in (4, 16, 64, 256, 1024)},
    "units a layer": {n: _width(n) for n in (64, 128, 256, 512)},
    "rollout length": {n: {"rollout_length": n} for n in (32, 128, 512, 2048)},
}


def parameters(setting: str, value: int) -> int:
    """Weights of actor and critic: 4 inputs, two layers, 2 logits and 1 value."""
    width = value if setting == "units a layer" else 64
    return 2 * (4 * width + width + width * width + width) + 3 * (width + 1)


def measure_all() -> dict[str, dict[str, Any]]:
    """Run every setting in turn; the figures of each setting and value."""
    own = [sys.executable, "-m", "benchmarks.peers.own"]
    found: dict[str, dict[str, Any]] = {
        setting: {str(value): {"runs": []} for value in values}
        for setting, values in SETTINGS.items()
    }
    for _ in range(RUNS.value):
        for setting, values in SETTINGS.items():
            for value, changes in values.items():
                measured = measure([*own, json.dumps(BASE | changes)])
                found[setting][str(value)]["runs"].append(measured)
    return found


def main(arguments: list[str]) -> int:
    """Measure, print, draw, keep."""
    import matplotlib.pyplot as plt

    if not DRAW.value:
        RESULT.write_text(json.dumps(measure_all(), indent=1) + "\n")
    kept = json.loads(RESULT.read_text())
    rows = []
    figure, axes = plt.subplots(
        1, len(SETTINGS), sharey=True, figsize=(11, 2.6), layout="constrained"
    )
    for axis, (setting, values) in zip(axes, SETTINGS.items(), strict=True):
        found = {value: kept[setting][str(value)] for value in values}
        for value, system in found.items():
            figures = [median(system, k) for k in ("steps_per_second", "startup", "memory_mb")]
            speed, startup, memory = figures
            row = [
                setting if value == next(iter(values)) else "",
                f"{value:,}",
                f"{parameters(setting, value):,}",
                f"{speed:,.0f}",
                f"{startup:.1f}",
                f"{memory:,.0f}",
            ]
            rows.append(row)
        speeds = [median(system, "steps_per_second") / 1000 for system in found.values()]
        axis.plot(list(found), speeds, "o-", color="#0072B2", markersize=4)
        axis.set_xscale("log", base=2)
        axis.set_xlabel(setting, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("thousand environment steps a second", fontsize=8)
    figure.savefig(PICTURE, dpi=130)
    header = ("setting", "value", "parameters", "steps/s", "start-up s", "memory MB")
    show(header, rows)
    put(PERFORMANCE, "scaling", markdown(header, rows))
    print(f"scaling: {sum(map(len, SETTINGS.values()))} settings measured")
    return 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
