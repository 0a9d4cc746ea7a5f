import warnings

import keras
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from acx.actors import NumpyNetwork
from acx.critics import CriticHead
from acx.exploration import GSDE
from acx.networks import MLP, Network, ParameterVector, sequential
from acx.policies import CategoricalHead, GaussianHead, GaussianTanhHead

HEADS = {
    "categorical": (CategoricalHead(), Discrete(3)),
    "gaussian": (GaussianHead(initial_log_std=-0.5), Box(-1.0, 1.0, (2,))),
    "gaussian, state-dependent": (GaussianHead("state_dependent"), Box(-1.0, 1.0, (2,))),
    "tanh": (GaussianTanhHead(), Box(-1.0, 1.0, (2,))),
    "tanh, state-dependent": (GaussianTanhHead("state_dependent"), Box(-1.0, 1.0, (2,))),
    "gaussian, generalized": (GaussianHead(GSDE()), Box(-1.0, 1.0, (2,))),
    "tanh, generalized": (GaussianTanhHead(GSDE()), Box(-1.0, 1.0, (2,))),
    "critic": (CriticHead(), None),
}
ACTIVATIONS = ["tanh", "relu", "elu", "silu", "leaky_relu", "gelu"]


def network(torso, head, shape=(3,)):
    """A network with weights and biases that all matter."""
    rng = np.random.default_rng(0)
    model = sequential("net", shape, [*torso, *head])
    for variable in model.trainable_variables:
        noise = rng.normal(0, 0.5, variable.shape)
        variable.assign(noise + ("gamma" in variable.path))
    return Network(model, ParameterVector(model.trainable_variables))


def numpy_equals_keras(net, scale=1.0):
    mirror = NumpyNetwork(net)
    mirror.load(net.parameters.read())
    shape = net.model.input_shape[1:]
    observations = (scale * np.random.default_rng(1).normal(size=(16, *shape))).astype(np.float32)
    found, expected = mirror(observations), net.model(observations).numpy()
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6 * np.abs(expected).max())
    np.testing.assert_allclose(mirror(observations[:1]), expected[:1], rtol=2e-5, atol=1e-5)
    return mirror


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_equals_tensorflow(activation, layer_norm):
    rng = np.random.default_rng(0)
    head = CategoricalHead()
    head.build(Discrete(3))
    torso = MLP((8, 5), activation, layer_norm).layers(rng)
    mirror = numpy_equals_keras(network(torso, head.layers(rng)))
    assert mirror.mirrored == (activation != "gelu")


@pytest.mark.parametrize(("head", "space"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_every_head_equals_tensorflow(head, space, shape):
    rng = np.random.default_rng(0)
    if space is not None:
        head.build(space)
    assert numpy_equals_keras(network(MLP((8,)).layers(rng), head.layers(rng), shape)).mirrored


def test_a_network_without_hidden_layers_equals_tensorflow():
    rng = np.random.default_rng(0)
    torso = MLP(()).layers(rng)
    assert numpy_equals_keras(network(torso, CriticHead().layers(rng), (2, 3))).mirrored


class Doubled(keras.layers.Layer):
    """A layer that the mirror can't know."""

    def call(self, x):
        return 2.0 * x


UNKNOWN = {
    "own layer": lambda: [keras.layers.Dense(4), Doubled()],
    "own subclass of a known layer": lambda: [type("Own", (keras.layers.Dense,), {})(4)],
    "dense without a bias": lambda: [keras.layers.Dense(4, use_bias=False)],
    "unknown activation": lambda: [keras.layers.Dense(4, activation="softplus")],
    "own activation": lambda: [keras.layers.Dense(4, activation=lambda x: keras.ops.tanh(x) * 2)],
    "layer norm without scale": lambda: [keras.layers.LayerNormalization(scale=False)],
}


@pytest.mark.parametrize("layers", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_mirrored_falls_back_to_compiled_tensorflow(layers):
    head = CriticHead().layers(np.random.default_rng(0))
    assert not numpy_equals_keras(network(layers(), head)).mirrored


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_huge_inputs_give_tensorflows_values_without_warnings(activation):
    rng = np.random.default_rng(0)
    torso = MLP((8,), activation).layers(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numpy_equals_keras(network(torso, CriticHead().layers(rng)), scale=1e4)


def test_new_weights_take_effect_when_loaded():
    head = CriticHead().layers(np.random.default_rng(0))
    net = network([keras.layers.Flatten()], head)
    mirror = NumpyNetwork(net)
    observations = np.ones((2, 3), np.float32)
    for weights in ([1, 2, 3, 4], [0, 0, 0, -1]):
        mirror.load(np.array(weights, np.float32))
        np.testing.assert_array_equal(mirror(observations), [sum(weights)] * 2)


@pytest.mark.parametrize(("head", "space"), HEADS.values(), ids=HEADS)
def test_every_weight_is_taken_anew_for_a_batch_of_the_same_size(head, space):
    rng = np.random.default_rng(0)
    if space is not None:
        head.build(space)
    net = network(MLP((8, 5), layer_norm=True).layers(rng), head.layers(rng))
    mirror, observations = NumpyNetwork(net), rng.normal(size=(4, 3)).astype(np.float32)
    mirror.load(net.parameters.read())
    before = mirror(observations).copy()
    weights = net.parameters.read()
    others = (weights + rng.normal(0, 0.3, weights.shape)).astype(np.float32)
    net.parameters.assign(others)
    mirror.load(others)
    np.testing.assert_allclose(
        mirror(observations), net.model(observations).numpy(), rtol=2e-5, atol=1e-5
    )
    assert not np.allclose(before, mirror(observations))
