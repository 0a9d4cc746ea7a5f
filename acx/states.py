"""State as a flat dictionary of arrays, with paths for names: what a checkpoint holds."""

import numpy as np

State = dict[str, np.ndarray]


def merged(parts: dict[str, State]) -> State:
    """{"a": {"x": 1}} -> {"a/x": 1}."""
    return {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}


def part(state: State, name: str) -> State:
    """The inverse of `merged`, for one part."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
