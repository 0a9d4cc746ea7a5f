"""Numbers as people read them."""

import math


def number(value: object) -> str:
    """Write a number with four digits and separated thousands; nothing for a missing one."""
    if isinstance(value, bool):
        return str(value)
    try:
        figure = float(value)  # type: ignore[arg-type]
    except TypeError:  # None, pandas.NA
        return ""
    if math.isnan(figure):
        return ""
    if figure.is_integer() or abs(figure) >= 10_000:
        return f"{figure:,.0f}"
    return f"{figure:,.4g}"
