"""Values of hyperparameters: as gin text that re-creates them exactly, and as people read them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from acx.errors import ConfigError

REFERENCE_MARKS = ("@", "%")


def literal(value: Any) -> str:
    """The gin text of a value: None, bools, numbers, text and containers of these.

    Text that starts with @ or % is a reference or macro. Infinity is `1e999`: gin has no `inf`.

    Raises:
      ConfigError: NaN, or a value that gin text can't hold.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()  # plain Python values: gin can't read np.float64(0.5)
    if isinstance(value, float):
        if math.isnan(value):
            raise ConfigError("NaN can't be the value of a hyperparameter")
        return ("1e999" if value > 0 else "-1e999") if math.isinf(value) else repr(value)
    if isinstance(value, str) and value.startswith(REFERENCE_MARKS):
        return value
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(item)}, " for item in value).rstrip() + ")"
    if isinstance(value, Sequence):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    raise ConfigError(f"{value!r} is no value that gin text can hold")


def spoken(value: Any) -> str:
    """A value in few characters: 0.0003, None, 64x64, GaussianHead."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.6g}" if abs(value) < 1e6 or math.isinf(value) else f"{value:.3g}"
    if isinstance(value, str):
        return value.removeprefix("@").removesuffix("()")
    if isinstance(value, Mapping):
        return "+".join(f"{spoken(k)}-{spoken(v)}" for k, v in value.items()) or "none"
    return "x".join(spoken(item) for item in value) or "none"


def typed_column(values: Sequence[Any]) -> list[bool | float | str]:
    """The values of one hyperparameter as a column of one type: bools, numbers or text."""
    if all(isinstance(value, bool) for value in values):
        return list(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values]
    return [spoken(value) for value in values]
