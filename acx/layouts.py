"""Several arrays in one flat vector: few, packed arguments make a compiled call cheap."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np
import tensorflow as tf

Vector = TypeVar("Vector", np.ndarray, tf.Tensor)


class Layout:
    """Consecutive arrays of given shapes in a vector of `size` elements."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.shapes = list(shapes)
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.ends = list(accumulate(self.sizes))
        self.size = self.ends[-1] if self.ends else 0

    def split(self, vector: Vector) -> list[Vector]:
        """The arrays; of a NumPy vector they are views, in compiled code they are slices."""
        parts = [vector[end - size : end] for end, size in zip(self.ends, self.sizes, strict=True)]
        if isinstance(vector, np.ndarray):
            return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]
