"""Functions compiled by XLA, and called with as little around them as possible."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context


class CompiledFunction:
    """A function of tensors, compiled for one signature.

    Calling a concrete function in TensorFlow's own way binds, checks and records arguments whose
    number and types are fixed here: that takes as long as a small program runs. This asks the
    eager context to run it, which is what TensorFlow's call comes down to.

    Args:
      function: traced once; may read and assign variables.
      signature: what it takes.
    """

    def __init__(self, function: Callable[..., Any], *signature: tf.TensorSpec) -> None:
        self._concrete = tf.function(
            function, jit_compile=True, autograph=False
        ).get_concrete_function(*signature)
        self._captured = list(self._concrete.captured_inputs)
        self._outputs = len(self._concrete.outputs)

    def __call__(self, *arguments: tf.Tensor | np.ndarray) -> list[tf.Tensor]:
        """The outputs in order, nested ones flattened; nothing is recorded for gradients."""
        # tf.constant takes an array in a third of tf.convert_to_tensor's time.
        tensors = [tf.constant(x) if isinstance(x, np.ndarray) else x for x in arguments]
        outputs: list[tf.Tensor] = context.context().call_function(
            self._concrete.name, tensors + self._captured, self._outputs
        )
        return outputs
