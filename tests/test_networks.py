import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box

from acx.critics import CriticHead
from acx.errors import ConfigError
from acx.networks import MLP, Network, ParameterVector, sequential
from acx.policies import GaussianHead


def mlp(**settings):
    return MLP(**settings).layers(np.random.default_rng(0))


def test_hidden_layers_are_orthogonal_with_gain_sqrt_2():
    model = sequential("torso", (16,), mlp(hidden_sizes=(8, 32)))
    first, _, second, _ = (v.numpy() for v in model.trainable_variables)
    np.testing.assert_allclose(first.T @ first, 2 * np.eye(8), atol=1e-5)
    np.testing.assert_allclose(second @ second.T, 2 * np.eye(8), atol=1e-5)


def test_layers_of_one_network_start_differently_and_by_seed():
    kernels = [
        sequential("torso", (8,), MLP((8, 8)).layers(np.random.default_rng(seed))).variables[0]
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert not np.allclose(kernels[0], kernels[2])
    model = sequential("torso", (8,), mlp(hidden_sizes=(8, 8)))
    assert not np.allclose(model.variables[0], model.variables[2])


def test_observations_of_any_shape_are_flattened():
    model = sequential("torso", (2, 3), mlp(hidden_sizes=(4,)))
    assert model(np.zeros((5, 2, 3), np.float32)).shape == (5, 4)


def test_T18_the_critic_returns_one_value_a_row_without_a_unit_axis():
    layers = [*mlp(hidden_sizes=(4,)), *CriticHead().layers(np.random.default_rng(0))]
    assert sequential("critic", (3,), layers)(np.zeros((5, 3), np.float32)).shape == (5,)


@pytest.mark.parametrize("wrong", [{"hidden_sizes": (0,)}, {"activation": "sine"}])
def test_nonsensical_layers_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"MLP.{next(iter(wrong))}"):
        MLP(**wrong)


def test_a_network_is_a_pure_function_of_its_parameters():
    head = GaussianHead()
    head.build(Box(-1.0, 1.0, (2,), np.float32))
    rng = np.random.default_rng(0)
    model = sequential("actor", (3,), [*mlp(hidden_sizes=(4,)), *head.layers(rng)])
    network = Network(model, ParameterVector(model.trainable_variables))
    observations = rng.normal(size=(5, 3)).astype(np.float32)
    before = model(observations).numpy()
    weights = [tf.constant(2.0 * v.numpy()) for v in model.trainable_variables]
    doubled = network(weights, tf.constant(observations)).numpy()
    np.testing.assert_array_equal(model(observations), before)
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    np.testing.assert_allclose(doubled, model(observations), rtol=1e-6)
    assert network.count() == 3 * 4 + 4 + 4 * 2 + 2 + 2


def test_parameters_survive_being_read_and_assigned():
    model = sequential("torso", (3,), mlp(hidden_sizes=(4, 2)))
    vector = ParameterVector(model.trainable_variables)
    values = np.arange(3 * 4 + 4 + 4 * 2 + 2, dtype=np.float32)
    vector.assign(values)
    np.testing.assert_array_equal(vector.read(), values)
    np.testing.assert_array_equal(model.trainable_variables[0], values[:12].reshape(3, 4))
    np.testing.assert_array_equal(model.trainable_variables[-1], values[-2:])


def test_a_layer_with_hidden_state_is_refused_by_name():
    model = sequential("actor", (3,), [keras.layers.BatchNormalization()])
    with pytest.raises(ValueError, match="moving_mean"):
        Network(model, ParameterVector(model.trainable_variables))
