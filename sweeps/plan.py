"""The plan of a sweep: which trials there are, and what each is called."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acx import config
from acx.config import NonNegative, PositiveInt, configurable
from acx.errors import ConfigError
from sweeps.strategies import Stage, Strategy, Values
from sweeps.values import literal, spoken

LONGEST_NAME = 120  # characters; longer ones are cut and end in a digest


@configurable
class Sweep:
    """An experiment, trained with different hyperparameters and seeds.

    Args:
      experiment: its gin file.
      strategy: which points are tried, such as @Grid().
      seeds: their number, counted from 0, or a list of them.
      bindings: what is the same in all trials but differs from the experiment's file.
      retries: how often a trial goes on from its checkpoint after its process died.
      patience: seconds without a sign of life after which a process counts as hung.
    """

    def __init__(
        self,
        experiment: str,
        strategy: Strategy,
        seeds: PositiveInt | Sequence[int] = 3,
        bindings: dict[str, Any] | None = None,
        retries: int = 2,
        patience: NonNegative = 1800.0,
    ) -> None:
        numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
        if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
            raise ConfigError(
                f"Sweep.seeds = {seeds!r}: seeds are different numbers from 0 on", "Sweep", "seeds"
            )
        self.experiment = experiment
        self.strategy = strategy
        self.seeds = numbers
        self.bindings = bindings or {}
        self.retries = retries
        self.patience = patience


@dataclass(frozen=True)
class Trial:
    """One training: a point and a seed. `name` is its folder below the sweep's."""

    point: str
    seed: int
    values: Values
    files: tuple[str, ...]
    bindings: tuple[str, ...]
    total_steps: int

    @property
    def name(self) -> str:
        """Such as `gamma=0.9,clip_norm=0.5/seed0`."""
        return f"{self.point}/seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """All trials of a sweep, points in order, each with all its seeds."""

    name: str
    file: str
    experiment: str
    bindings: tuple[str, ...]  # of all trials
    base: dict[str, str]  # what all trials share, by binding
    points: dict[str, Values]
    trials: tuple[Trial, ...]
    stages: tuple[Stage, ...]
    seeds: tuple[int, ...]
    retries: int
    patience: float

    @property
    def axes(self) -> list[str]:
        """The names of the hyperparameters that vary."""
        return list(next(iter(self.points.values())))


def load_plan(sweep_file: str) -> Plan:
    """The plan that a gin file describes.

    Raises:
      ConfigError: the file or the experiment's file can't be read, or doesn't describe a sweep.
    """
    found = config.load([sweep_file])
    sweep = config.build(Sweep, found)
    experiment = _beside(sweep_file, sweep.experiment)
    shared = tuple(f"{name} = {literal(value)}" for name, value in sweep.bindings.items())
    base = config.scan([experiment], shared)
    points = named_points(sweep.strategy.points())
    trials = tuple(
        Trial(name, seed, values, (experiment,), (*bindings, f"seed = {seed}"), steps)
        for name, values in points.items()
        for bindings in [(*shared, *(f"{n} = {literal(v)}" for n, v in values.items()))]
        for steps in [_total_steps(experiment, bindings)]
        for seed in sweep.seeds
    )
    return Plan(
        Path(sweep_file).stem,
        sweep_file,
        experiment,
        shared,
        {binding.name: repr(binding.value) for binding in base.bindings},
        points,
        trials,
        tuple(sweep.strategy.stages()),
        tuple(sweep.seeds),
        sweep.retries,
        sweep.patience,
    )


def _beside(sweep_file: str, experiment: str) -> str:
    """The experiment's path: relative to the working directory, or to the sweep's file."""
    beside = os.path.join(os.path.dirname(sweep_file), experiment)
    return beside if not os.path.exists(experiment) and os.path.exists(beside) else experiment


def _total_steps(experiment: str, bindings: Sequence[str]) -> int:
    binding = config.scan([experiment], bindings).find("Experiment", "total_steps")
    if binding is None or not isinstance(binding.value, int) or binding.value <= 0:
        raise ConfigError(f"{experiment} has no Experiment.total_steps to plan with")
    return binding.value


def named_points(points: Sequence[Values]) -> dict[str, Values]:
    """Each point by a name that serves as a folder and says what is different about it."""
    short = _short_names(list(points[0]))
    named: dict[str, Values] = {}
    plain = [_point_name(point, short) for point in points]
    for point, name in zip(points, plain, strict=True):
        if plain.count(name) > 1 or len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}-{_digest(point)}"
        if name in named:
            raise ConfigError(f"the sweep has the point {name} twice")
        named[name] = point
    return named


def _point_name(point: Values, short: dict[str, str]) -> str:
    text = ",".join(f"{short[name]}={spoken(value)}" for name, value in point.items())
    return re.sub(r"[^\w.=,+-]", "_", text, flags=re.ASCII)


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """`GAE.gae_lambda` -> `gae_lambda`, where no other name ends like that."""
    last = {name: name.rpartition(".")[2] for name in names}
    endings = list(last.values())
    return {n: end if endings.count(end) == 1 else n for n, end in last.items()}


def _digest(point: Values) -> str:
    text = "\n".join(f"{name} = {literal(value)}" for name, value in point.items())
    return hashlib.sha256(text.encode()).hexdigest()[:6]
