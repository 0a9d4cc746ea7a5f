"""What the doctor finds in a run, and what its advice is worth."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from acx import config, health, runs
from acx.experiment import Experiment
from acx.health import Context, Finding, context_of_file
from acx.health.checkup import play
from acx.observers import read_status
from benchmarks.learning_table import load, measured
from benchmarks.sickness.setups import HEALTHY, SETUPS, Setup
from benchmarks.sickness.training import train

SHARE = 0.2  # of the budget, in which the right diagnosis is to be made
TRAINED = SHARE + 0.01  # what is reported at 20 % is known an iteration later
ENDED = ("finished", "interrupted", "failed")
RANDOM_STEPS = 20_000


@dataclass
class Healthy:
    """A healthy run: its return, and the warnings and errors that were found all the same."""

    base: str
    seed: int
    mean_return: float
    alarms: list[str]
    seconds: float  # of training
    examined: float  # seconds that the examination took


@dataclass
class Sick:
    """A sick run: what was found in time, and the return after the advice was taken."""

    name: str
    base: str
    seed: int
    held_out: bool
    curable: bool
    found: list[tuple[str, float]]  # warnings and errors with the share of the budget
    diagnosis: str  # the first that is right, or ''
    share: float | None  # of the budget, when it was made
    binding: str
    cured_return: float | None = None
    score: float | None = None  # 0 is random, 1 is healthy; None is not measured


@dataclass
class Results:
    """All rows; by experiment the returns of random actions, and the alarms in measured runs."""

    random: dict[str, float] = field(default_factory=dict)
    # Of each experiment in benchmarks/results, a list a seed: `benchmarks.learning` looks as well.
    references: dict[str, list[list[str]]] = field(default_factory=dict)
    healthy: list[Healthy] = field(default_factory=list)
    sick: list[Sick] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For benchmarks/results."""
        return asdict(self)

    def healthy_return(self, base: str) -> float | None:
        """The mean over healthy seeds; None where none has been trained."""
        returns = [row.mean_return for row in self.healthy if row.base == base]
        return float(np.mean(returns)) if returns else None


def examined(folder: Path) -> tuple[Context, list[Finding], float]:
    """What is found in a run's table, and the seconds that it took."""
    context = context_of_file(folder / runs.CONFIG)
    start = time.perf_counter()
    findings = health.examined(folder, context).findings
    return context, findings, time.perf_counter() - start


def random_return(base: str) -> float:
    """The mean return of random actions."""
    experiment = config.build(Experiment, config.load([f"experiments/{base}.gin"]))
    env = experiment.environment.make_single()
    try:
        return float(np.mean(play(env, RANDOM_STEPS, 1.0).returns))
    finally:
        env.close()


class Clinic:
    """Trains what is missing and examines it.

    Args:
      folder: where runs are kept, so that a campaign that was stopped goes on.
      device: in words.
      trains: False leaves out what has not been trained.
    """

    def __init__(self, folder: Path, device: str, trains: bool = True) -> None:
        self._folder = folder
        self._device = device
        self._trains = trains
        self._session = runs.Session()

    def _train(
        self, where: str, seed: int, base: str, bindings: Sequence[str], share: float
    ) -> Path | None:
        folder = self._folder / where / f"seed{seed}"
        if self._trains:
            train(self._session, self._device, folder, base, bindings, seed, share)
        return folder if read_status(folder).get("state") in ENDED else None

    def healthy(self, base: str, seed: int) -> Healthy | None:
        """Train a reference experiment and look for false alarms."""
        folder = self._train(f"healthy/{base}", seed, base, (), 1.0)
        if folder is None:
            return None
        _, findings, seconds = examined(folder)
        alarms = [str(finding) for finding in findings if finding.is_alarm]
        status = read_status(folder)
        trained = float(status["updated"]) - float(status["started"])
        return Healthy(base, seed, float(status["mean_reward"]), alarms, trained, seconds)

    def sick(self, setup: Setup, seed: int) -> Sick | None:
        """Train the first part of a sick experiment and compare what is found with its cause."""
        folder = self._train(f"sick/{_slug(setup)}", seed, setup.base, setup.bindings, TRAINED)
        if folder is None:
            return None
        context, findings, _ = examined(folder)
        limit = SHARE * context.total_steps
        found = [f for f in findings if f.is_alarm and f.step <= limit]
        right = [f for f in found if f.name in setup.expected]
        return Sick(
            setup.name,
            setup.base,
            seed,
            setup.held_out,
            setup.curable,
            [(f.name, f.step / context.total_steps) for f in found],
            right[0].name if right else "",
            right[0].step / context.total_steps if right else None,
            right[0].binding if right else "",
        )

    def cure(self, setup: Setup, row: Sick) -> float | None:
        """Train the sick experiment with the printed binding; returns the mean return."""
        advice = hashlib.sha256(row.binding.encode()).hexdigest()[:8]
        bindings = [*setup.bindings, row.binding]
        where = f"cured/{_slug(setup)}-{advice}"
        folder = self._train(where, row.seed, setup.base, bindings, 1.0)
        if folder is None:
            return None
        return float(read_status(folder).get("mean_reward", -np.inf)) / setup.reward_factor


def _slug(setup: Setup) -> str:
    name = f"{setup.base} {setup.name}"
    return "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)


def references() -> dict[str, list[list[str]]]:
    """By experiment in benchmarks/results, the warnings and errors in each measured seed."""
    results = {name: load(name) for name in measured()}
    return {
        name: [seed["alarms"] for seed in result["seeds"].values() if "alarms" in seed]
        for name, result in results.items()
        if result is not None
    }


def campaign(clinic: Clinic, seeds: int, cure_seeds: int) -> Results:
    """Everything, in an order in which a campaign that is stopped early is of most use."""
    results = Results({base: random_return(base) for base in HEALTHY}, references())
    for seed in range(seeds):
        runs_of_seed = [clinic.healthy(base, seed) for base in HEALTHY]
        results.healthy += [row for row in runs_of_seed if row is not None]
    for setup in SETUPS:
        rows = [clinic.sick(setup, seed) for seed in range(seeds)]
        for row in rows:
            if row is not None:
                results.sick.append(row)
                if setup.curable and row.seed < cure_seeds:
                    _cure(results, clinic, setup, row)
    return results


def _cure(results: Results, clinic: Clinic, setup: Setup, row: Sick) -> None:
    """Note the return with the printed binding; without the right one it is no cure."""
    if not row.binding:
        row.score = 0.0
        return
    row.cured_return = clinic.cure(setup, row)
    if row.cured_return is not None:
        row.score = score(results, setup.base, row.cured_return)


def score(results: Results, base: str, mean_return: float) -> float:
    """0 is the return of random actions, 1 that of the healthy runs."""
    healthy, random = results.healthy_return(base), results.random[base]
    assert healthy is not None
    return (mean_return - random) / (healthy - random)
