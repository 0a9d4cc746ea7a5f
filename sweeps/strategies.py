"""Which points a sweep tries: every combination, a list, or random draws."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acx.config import PositiveInt, configurable
from acx.errors import ConfigError
from sweeps.values import literal

Values = dict[str, Any]  # of one point, by macro or `Component.parameter`


@dataclass(frozen=True)
class Stage:
    """Train the points that are still in to this share of their budget, then keep the best.

    Attributes:
      fraction: of each trial's total_steps; 1 is to the end.
      keep: how many points go on; None is all.
    """

    fraction: float
    keep: int | None = None


class Strategy(ABC):
    """Chooses points, and which of them are trained to the end."""

    @abstractmethod
    def points(self) -> list[Values]:
        """All points that are tried, in order."""

    def stages(self) -> list[Stage]:
        """How far points are trained; at once to the end unless a strategy stops some early."""
        return [Stage(1.0)]


def _fail(strategy: str, parameter: str, problem: str) -> ConfigError:
    return ConfigError(f"{strategy}.{parameter}: {problem}", strategy, parameter)


def _check_name(name: str, strategy: str, parameter: str) -> None:
    if name == "seed" or name.endswith(".seed"):
        raise _fail(strategy, parameter, f"{name!r} is not for an axis: set Sweep.seeds")


@configurable
class Grid(Strategy):
    """Every combination of the axes' values; the last axis varies fastest.

    Args:
      axes: macros or bindings and the values that each takes.
    """

    def __init__(self, axes: dict[str, Any]) -> None:
        if not axes:
            raise _fail("Grid", "axes", "there is no axis")
        for name, values in axes.items():
            _check_name(name, "Grid", "axes")
            if not isinstance(values, list | tuple) or not values:
                raise _fail("Grid", "axes", f"{name!r} needs a list of values, not {values!r}")
            texts = [literal(value) for value in values]
            twice = [text for text in texts if texts.count(text) > 1]
            if twice:
                raise _fail("Grid", "axes", f"{name!r} has the value {twice[0]} twice")
        self.axes = {name: list(values) for name, values in axes.items()}

    def points(self) -> list[Values]:
        """See the class."""
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]


@configurable
class Points(Strategy):
    """The points of a list.

    Args:
      points: each a dictionary of values; all with the same names.
    """

    def __init__(self, points: Sequence[dict[str, Any]]) -> None:
        if not points or not points[0]:
            raise _fail("Points", "points", "there is no point")
        for name in points[0]:
            _check_name(name, "Points", "points")
        for number, point in enumerate(points, 1):
            if set(point) != set(points[0]):
                named = ", ".join(sorted(set(point) ^ set(points[0])))
                raise _fail(
                    "Points",
                    "points",
                    f"point {number} and the first differ in which values they set: {named}",
                )
        self._points = [{name: point[name] for name in points[0]} for point in points]

    def points(self) -> list[Values]:
        """See the class."""
        return self._points


@configurable
class RandomSearch(Strategy):
    """Independent random draws. More draws of the same seed begin with the same points.

    Args:
      space: for each macro or binding ('uniform', low, high), ('log_uniform', low, high),
        ('integer', low, high), both included, or ('choice', [values]).
      count: how many points.
      seed: of the draws.
    """

    def __init__(self, space: dict[str, Any], count: PositiveInt, seed: int = 0) -> None:
        if not space:
            raise _fail("RandomSearch", "space", "there is nothing to draw")
        for name, distribution in space.items():
            _check_name(name, "RandomSearch", "space")
            problem = _distribution_problem(distribution)
            if problem:
                raise _fail("RandomSearch", "space", f"{name!r} = {distribution!r}: {problem}")
        self.space = space
        self.count = count
        self.seed = seed

    def points(self) -> list[Values]:
        """See the class."""
        generators = (np.random.default_rng((self.seed, i)) for i in range(self.count))
        return [
            {name: draw(distribution, generator) for name, distribution in self.space.items()}
            for generator in generators
        ]


def _distribution_problem(distribution: Any) -> str:
    kinds = "('uniform' | 'log_uniform' | 'integer', low, high) or ('choice', [values])"
    match distribution:
        case ("choice", list() | tuple() as values) if values:
            return ""
        case (
            "uniform" | "log_uniform" | "integer" as kind,
            int() | float() as low,
            int() | float() as high,
        ):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                return "low must be below high, both finite"
            if kind == "log_uniform" and low <= 0:
                return "log_uniform needs low above 0"
            if kind == "integer" and not (isinstance(low, int) and isinstance(high, int)):
                return "integer needs whole numbers"
            return ""
    return f"a distribution is {kinds}"


def draw(distribution: Sequence[Any], generator: np.random.Generator) -> Any:
    """One value of a distribution, as a plain Python value."""
    kind, *parameters = distribution
    if kind == "choice":
        return parameters[0][int(generator.integers(len(parameters[0])))]
    low, high = parameters
    if kind == "integer":
        return int(generator.integers(low, high, endpoint=True))
    if kind == "uniform":
        return float(generator.uniform(low, high))
    return float(np.exp(generator.uniform(math.log(low), math.log(high))))


@configurable
class SuccessiveHalving(Strategy):
    """Train all points a little, the best of them on, until few are trained to the end.

    (Jamieson & Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter
    Optimization".) A trial that goes on is the same, bit for bit, as one that never paused: its
    schedules count towards the whole budget from the start. Points are compared by the mean over
    their seeds of the training return.

    Args:
      candidates: the strategy that chooses the points, such as @RandomSearch().
      reduction: one in `reduction` points goes on from a stage, rounded up.
      stages: the last one trains to the end; each earlier one to 1 in `reduction` of the next.
    """

    def __init__(
        self, candidates: Strategy, reduction: PositiveInt = 3, stages: PositiveInt = 3
    ) -> None:
        if reduction < 2:
            raise _fail("SuccessiveHalving", "reduction", "must be 2 or more")
        self.candidates = candidates
        self.reduction = reduction
        self.count = stages

    def points(self) -> list[Values]:
        """All candidates."""
        return self.candidates.points()

    def stages(self) -> list[Stage]:
        """See the class."""
        alive, found = len(self.points()), []
        for index in range(self.count - 1):
            alive = math.ceil(alive / self.reduction)
            found.append(Stage(self.reduction ** -(self.count - 1 - index), alive))
        return [*found, Stage(1.0)]
