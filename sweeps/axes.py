"""What a sweep's hyperparameters take: as columns for TensorBoard, and in words."""

from typing import Any

from sweeps.plan import Plan
from sweeps.values import literal, spoken, typed_column

Column = bool | float | str


def axis_values(plan: Plan, name: str) -> list[Any]:
    """The different values of one hyperparameter, in the order in which points have them."""
    return list({literal(v[name]): v[name] for v in plan.points.values()}.values())


def columns(plan: Plan) -> dict[str, dict[str, Column]]:
    """For each point what varies, one type a column: numbers where all are, else text."""
    points = plan.points
    typed = {name: typed_column([values[name] for values in points.values()]) for name in plan.axes}
    return {point: {name: typed[name][i] for name in plan.axes} for i, point in enumerate(points)}


def domains(plan: Plan) -> dict[str, list[Column]]:
    """The different values of each hyperparameter, in their order."""
    return {
        name: list(dict.fromkeys(row[name] for row in columns(plan).values())) for name in plan.axes
    }


def describe_axes(plan: Plan) -> dict[str, str]:
    """The values of each hyperparameter in words; of many only the ends."""
    texts = {}
    for name in plan.axes:
        values = [spoken(value) for value in axis_values(plan, name)]
        texts[name] = ", ".join(values if len(values) <= 9 else [*values[:4], "…", values[-1]])
    return texts
