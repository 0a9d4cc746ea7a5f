"""Train experiments over many seeds and keep the results as small files.

python -m benchmarks.learning --experiments=pendulum,cartpole --seeds=10

Each seed is evaluated at points of its budget and at its end, on 100 deterministic episodes
with fresh seeds. What benchmarks/results/ has already for the same configuration is not run again
(--fresh runs it anew). Prints the table of goals and exits with 1 where one is missed.
"""

import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from typing import Any

from absl import app, flags

from benchmarks.learning_table import GOALS, RESULTS, print_table, result_path

EXPERIMENTS = flags.DEFINE_list(
    "experiments", list(GOALS), "Names of files in experiments/, without .gin."
)
SEEDS = flags.DEFINE_integer("seeds", 10, "Seeds 0 to N-1.", lower_bound=1)
WORKERS = flags.DEFINE_integer("workers", os.cpu_count(), "Processes at a time.", lower_bound=1)
POINTS = flags.DEFINE_integer("points", 10, "Evaluations along the budget.", lower_bound=1)
BINDINGS = flags.DEFINE_multi_string("gin_bindings", [], "Bindings for all of them, to try out.")
FRESH = flags.DEFINE_bool("fresh", False, "Run again what has a result.")
SAVE = flags.DEFINE_bool("save", True, "Keep the results.")

PACKAGES = ("acx", "tensorflow", "keras", "gymnasium", "numpy")


class Curve:
    """An observer that keeps the evaluations."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []

    def on_report(self, report: Any) -> None:
        """Not needed."""

    def on_evaluation(self, env_steps: int, result: Any, final: bool) -> None:
        """Keep the mean."""
        if not final:
            self.points.append((env_steps, round(result.mean, 3)))

    def close(self) -> None:
        """Nothing to release."""


def run_seed(name: str, seed: int, bindings: Sequence[str], points: int) -> dict[str, Any]:
    """Train and evaluate one seed in this process; returns its entry of the result file."""
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import config, runs

    files = [f"experiments/{name}.gin"]
    total_steps = int(config.macro(config.scan(files, bindings), "total_steps"))
    experiment = runs.build(
        files,
        [
            *bindings,
            f"seed = {seed}",
            f"Evaluation.every = {max(total_steps // points, 1)}",
            "Evaluation.episodes = 100",
        ],
    )
    curve, start = Curve(), time.perf_counter()
    result = experiment.run([curve])
    return {
        "final": round(result.mean, 3),
        "std": round(result.std, 3),
        "curve": curve.points,
        "seconds": round(time.perf_counter() - start, 1),
        "config": config.resolved(),
        "total_steps": total_steps,
    }


def without_seed(resolved: str) -> str:
    """A resolved configuration that seeds of one experiment have in common."""
    return "\n".join(line for line in resolved.splitlines() if not line.startswith("seed ="))


def record(name: str, seed: int, entry: dict[str, Any], save: bool) -> dict[str, Any]:
    """Add a seed to its experiment's result file; another configuration starts the file anew."""
    path = result_path(name)
    config = without_seed(entry.pop("config"))
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("config") != config.splitlines():
        kept = {"seeds": {}}
    kept |= {
        "experiment": name,
        "total_steps": entry.pop("total_steps"),
        "config": config.splitlines(),
        "versions": {package: version(package) for package in PACKAGES}
        | {"python": platform.python_version()},
    }
    kept["seeds"][str(seed)] = entry
    kept["seeds"] = dict(sorted(kept["seeds"].items(), key=lambda item: int(item[0])))
    if save:
        RESULTS.mkdir(exist_ok=True)
        path.write_text(_one_seed_a_line(kept), encoding="utf-8")
    return kept


def _one_seed_a_line(result: dict[str, Any]) -> str:
    """JSON that a person can skim and a diff can show."""
    seeds = ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in result["seeds"].items())
    rest = json.dumps({k: v for k, v in result.items() if k != "seeds"}, indent=1)
    return f'{rest.removesuffix("}").rstrip()},\n "seeds": {{\n{seeds}\n }}\n}}\n'


def jobs(names: Sequence[str], seeds: int, fresh: bool) -> Iterator[tuple[str, int]]:
    """(experiment, seed) pairs that have no result yet."""
    for name in names:
        path = result_path(name)
        done = json.loads(path.read_text())["seeds"] if path.exists() and not fresh else {}
        yield from ((name, seed) for seed in range(seeds) if str(seed) not in done)


def main(arguments: list[str]) -> int:
    """Run what is missing, then print the table."""
    names, todo = EXPERIMENTS.value, list(jobs(EXPERIMENTS.value, SEEDS.value, FRESH.value))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS.value, mp_context=spawn) as pool:
        futures = {
            pool.submit(run_seed, name, seed, BINDINGS.value, POINTS.value): (name, seed)
            for name, seed in todo
        }
        for i, future in enumerate(as_completed(futures), 1):
            name, seed = futures[future]
            entry = future.result()
            print(
                f"{i}/{len(todo)} {name} seed {seed}: {entry['final']:.1f} "
                f"± {entry['std']:.1f} in {entry['seconds']:.0f} s",
                flush=True,
            )
            record(name, seed, entry, SAVE.value)
    return print_table(names)


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
