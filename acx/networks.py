"""Torsos and initialization: plain lists of Keras layers, and networks as pure functions.

Training treats all weights of a network as one flat float32 vector (`ParameterVector`), which
makes gradient clipping, the optimizer and the copy for the actor single operations. The Keras
model stays what people inspect, save and extend; `ParameterVector.assign` writes the vector back.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from acx.config import PositiveInt, configurable
from acx.layouts import Layout

Activation = Literal["tanh", "relu", "elu", "silu", "gelu", "leaky_relu"]


def orthogonal(gain: float, rng: np.random.Generator) -> keras.initializers.Initializer:
    """Orthogonal initialization (Saxe et al. 2014) with a seed of its own."""
    return keras.initializers.Orthogonal(gain=gain, seed=int(rng.integers(2**31)))


@configurable
class MLP:
    """A multilayer perceptron torso: observations flattened, then dense layers.

    Args:
      hidden_sizes: width of each layer.
      activation: after each layer.
      layer_norm: normalize each layer before its activation (Ba et al. 2016).
    """

    def __init__(
        self,
        hidden_sizes: Sequence[PositiveInt] = (64, 64),
        activation: Activation = "tanh",
        layer_norm: bool = False,
    ) -> None:
        self.hidden_sizes = tuple(hidden_sizes)
        self.activation = activation
        self.layer_norm = layer_norm

    def layers(self, rng: np.random.Generator) -> list[keras.layers.Layer]:
        """New layers: [B, ...] observations to [B, hidden_sizes[-1]] features."""
        layers: list[keras.layers.Layer] = [keras.layers.Flatten()]
        for size in self.hidden_sizes:
            layers.append(keras.layers.Dense(size, kernel_initializer=orthogonal(2**0.5, rng)))
            if self.layer_norm:
                layers.append(keras.layers.LayerNormalization(epsilon=1e-5))
            layers.append(keras.layers.Activation(self.activation))
        return layers


class ParameterVector:
    """Where each trainable variable of a model lies in one flat vector."""

    def __init__(self, variables: Sequence[keras.Variable]) -> None:
        self.variables = list(variables)
        self.layout = Layout([tuple(variable.shape) for variable in self.variables])

    def read(self) -> np.ndarray:
        """The variables' present values, float32 [size]."""
        return np.concatenate([np.ravel(variable.numpy()) for variable in self.variables])

    def assign(self, vector: np.ndarray) -> None:
        """Write a vector into the variables."""
        for variable, part in zip(self.variables, self.layout.split(vector), strict=True):
            variable.assign(part)


class Network:
    """A Keras model as a pure function of its parameters.

    `parameters` may lay out more variables than the model has: with a shared torso, actor and
    critic are two models over one vector.
    """

    def __init__(self, model: keras.Model, parameters: ParameterVector) -> None:
        if model.non_trainable_variables:
            names = ", ".join(variable.path for variable in model.non_trainable_variables)
            raise ValueError(
                f"acx networks hold trainable weights only; {model.name} has the state {names}"
            )
        self.model = model
        self.parameters = parameters
        place = {id(variable): i for i, variable in enumerate(parameters.variables)}
        self._places = [place[id(variable)] for variable in model.trainable_variables]

    def __call__(self, tensors: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
        """The model's output with `tensors` (split from the vector) as its weights."""
        weights = [tensors[i] for i in self._places]
        outputs, _ = self.model.stateless_call(weights, [], inputs, training=False)
        return outputs

    def count(self) -> int:
        """Number of trainable weights."""
        return sum(self.parameters.layout.sizes[i] for i in self._places)


def sequential(
    name: str, shape: Sequence[int], layers: Iterable[keras.layers.Layer]
) -> keras.Sequential:
    """A built Sequential on float32 inputs of `shape` (without the batch axis)."""
    return keras.Sequential([keras.Input(tuple(shape), dtype="float32"), *layers], name=name)
