"""Train experiments over many seeds and keep the results as small files.

python -m benchmarks.learning --experiments=pendulum,cartpole --seeds=10

Each seed is evaluated at points of its budget and at its end, on 100 deterministic episodes
with fresh seeds. What benchmarks/results/ has already for the same configuration is not run again
(--fresh runs it anew), so a campaign that was stopped goes on where it was. Prints the table of
goals and exits with 1 where one is missed.
"""

import functools
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

from benchmarks.learning_table import GOALS, RESULTS, load, measured, print_table, result_path

EXPERIMENTS = flags.DEFINE_list(
    "experiments",
    None,
    "Names of files in experiments/, without .gin; default: those that have a result.",
)
SEEDS = flags.DEFINE_integer(
    "seeds", None, "Seeds 0 to N-1; default: as many as the experiment's goal asks for."
)
WORKERS = flags.DEFINE_integer("workers", os.cpu_count(), "Processes at a time.", lower_bound=1)
POINTS = flags.DEFINE_integer("points", 20, "Evaluations along the budget.", lower_bound=1)
EPISODES = flags.DEFINE_integer(
    "episodes", 100, "Episodes of an evaluation along the budget; the last one always has 100."
)
BINDINGS = flags.DEFINE_multi_string("gin_bindings", [], "Bindings for all of them, to try out.")
FRESH = flags.DEFINE_bool("fresh", False, "Run again what has a result.")
SAVE = flags.DEFINE_bool("save", True, "Keep the results.")

TOTAL = "total_steps"  # the macro that every experiment binds
ALONG = "Evaluation.episodes"  # of the evaluations along the budget: changes no training
PACKAGES = ("acx", "tensorflow", "keras", "gymnasium", "numpy", "mujoco", "box2d")


class Curve:
    """An observer that keeps the evaluations, and what the doctor finds.

    Args:
      examination: of the run, as in every run of `acx.main`.
    """

    def __init__(self, examination: Any) -> None:
        self.points: list[tuple[int, float]] = []
        self._examination = examination

    @property
    def alarms(self) -> list[str]:
        """What was found above the level of a note."""
        return [str(finding) for finding in self._examination.findings if finding.is_alarm]

    def on_report(self, report: Any) -> None:
        """Examine it."""
        self._examination.report(report.env_steps, report.scalars)

    def on_evaluation(self, env_steps: int, result: Any, final: bool) -> None:
        """Keep the mean."""
        self._examination.evaluation(env_steps, result.mean, result.std)
        if not final:
            self.points.append((env_steps, round(result.mean, 3)))

    def close(self) -> None:
        """Nothing to release."""


@functools.cache
def programs() -> Any:
    """Compiled programs that this process's seeds of one experiment share."""
    from acx.programs import ProgramCache

    return ProgramCache()


def configuration(name: str, settings: Sequence[str]) -> str:
    """The resolved configuration of an experiment, without building its networks."""
    from acx import config
    from acx.experiment import Experiment

    config.build(Experiment, config.load([f"experiments/{name}.gin"], settings))
    return config.resolved()


def settings_of(name: str, bindings: Sequence[str], points: int, episodes: int) -> list[str]:
    """The bindings of an experiment, with its evaluations along the budget."""
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import config

    total_steps = int(config.macro(config.scan([f"experiments/{name}.gin"], bindings), TOTAL))
    return [
        *bindings,
        f"Evaluation.every = {max(total_steps // points, 1)}",
        f"Evaluation.episodes = {episodes}",
    ]


def run_seed(name: str, seed: int, settings: Sequence[str]) -> dict[str, Any]:
    """Train and evaluate one seed in this process; returns its entry of the result file."""
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import config, runs
    from acx.health.context import context_of
    from acx.health.examination import Examination

    files, start = [f"experiments/{name}.gin"], time.perf_counter()
    experiment = runs.build(files, [*settings, f"seed = {seed}"], programs())
    curve = Curve(Examination(context_of(experiment, config.resolved())))
    result = experiment.run([curve])
    return {
        "final": round(result.mean, 3),
        "std": round(result.std, 3),
        "curve": curve.points,
        "alarms": curve.alarms,
        "seconds": round(time.perf_counter() - start, 1),
        "config": config.resolved(),
        "total_steps": experiment.total_steps,
    }


def without_seed(resolved: str) -> list[str]:
    """The lines of a resolved configuration that seeds of one experiment have in common."""
    return [line for line in resolved.splitlines() if not line.startswith("seed =")]


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """gin's lines, with the long ones that it breaks put together again."""
    return "\n".join(lines).replace("\\\n", "").splitlines()


def same(before: Sequence[str], now: Sequence[str]) -> bool:
    """Whether two configurations agree in what a training depends on. A parameter that only one of
    them has is new or gone since then: what takes part in a training is named by both."""
    old, new = (
        dict(line.split(" = ", 1) for line in _unwrapped(lines) if " = " in line)
        for lines in (before, now)
    )
    return all(old[name] == new[name] for name in old.keys() & new.keys() - {ALONG})


def versions() -> dict[str, str]:
    """Versions of what a result may depend on."""
    return {package: version(package) for package in PACKAGES} | {
        "python": platform.python_version()
    }


def record(name: str, seed: int, entry: dict[str, Any], save: bool) -> dict[str, Any]:
    """Add a seed to its experiment's result file; another configuration starts the file anew."""
    path = result_path(name)
    config = without_seed(entry.pop("config"))
    kept = load(name) or {}
    if not kept or not same(kept["config"], config):
        kept = {"seeds": {}}
    kept |= {
        "experiment": name,
        "total_steps": entry.pop("total_steps"),
        "config": config,
        "versions": versions(),
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


def jobs(
    name: str, settings: Sequence[str], seeds: int | None, fresh: bool
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """What `run_seed` takes, for the seeds that have no result of this configuration yet."""
    result = None if fresh else load(name)
    now = without_seed(configuration(name, settings))
    done = result["seeds"] if result and same(result["config"], now) else {}
    wanted = seeds or (GOALS[name].seeds if name in GOALS else 10)
    yield from ((name, seed, settings) for seed in range(wanted) if str(seed) not in done)


def main(arguments: list[str]) -> int:
    """Run what is missing, then print the table."""
    names = EXPERIMENTS.value or measured()
    todo: list[tuple[str, int, Sequence[str]]] = []
    for name in names:
        settings = settings_of(name, BINDINGS.value, POINTS.value, EPISODES.value)
        todo += jobs(name, settings, SEEDS.value, FRESH.value)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS.value, mp_context=spawn) as pool:
        futures = {pool.submit(run_seed, *job): job for job in todo}
        for i, future in enumerate(as_completed(futures), 1):
            name, seed, _ = futures[future]
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
