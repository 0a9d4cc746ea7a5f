import keras
import numpy as np
import pytest
import tensorflow as tf

from acx.errors import ConfigError
from acx.optimizers import ClippedOptimizer, OptimizerFactory
from acx.schedules import ExponentialDecay, Progress

SHAPES = [(3, 4), (4,), (4, 2), (2,)]
KERAS = {
    "adam": lambda rate, **clip: keras.optimizers.Adam(rate, epsilon=1e-5, **clip),
    "rmsprop": lambda rate, **clip: keras.optimizers.RMSprop(rate, rho=0.99, epsilon=1e-5, **clip),
    "sgd": lambda rate, **clip: keras.optimizers.SGD(rate, momentum=0.9, **clip),
}


def clipped(clip_norm, algorithm="sgd", start=(0.0,)):
    optimizer = ClippedOptimizer(OptimizerFactory(algorithm, 1.0), clip_norm)
    return optimizer, optimizer.build(np.array(start, np.float32))


def step(optimizer, gradient, rate=1.0):
    """One step as compiled training takes it; returns the logged norm."""
    return float(
        optimizer.apply(
            tf.constant(gradient, tf.float32),
            tf.constant(rate, tf.float32),
            tf.constant(optimizer.clip_norm, tf.float32),
        )
    )


@pytest.mark.parametrize("clip_norm", [None, 0.5])
@pytest.mark.parametrize("algorithm", KERAS)
def test_a_flat_vector_steps_like_kerass_own_optimizer_on_separate_variables(algorithm, clip_norm):
    rng = np.random.default_rng(0)
    parameters = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    variables = [keras.Variable(value) for value in parameters]
    rates = [1e-2, 1e-2, 5e-3, 1e-3, 1e-3]
    reference = KERAS[algorithm](rates[0], **({"global_clipnorm": clip_norm} if clip_norm else {}))
    factory = OptimizerFactory(algorithm, 1e-2, momentum=0.9 if algorithm == "sgd" else 0.0)
    ours = ClippedOptimizer(factory, clip_norm)
    vector = ours.build(np.concatenate([value.ravel() for value in parameters]))
    for rate in rates:
        gradients = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
        reference.learning_rate = rate
        reference.apply(gradients, variables)
        flat = np.concatenate([gradient.ravel() for gradient in gradients])
        norm = step(ours, flat, rate)
        assert norm == pytest.approx(np.linalg.norm(flat), rel=1e-5)
    expected = np.concatenate([variable.numpy().ravel() for variable in variables])
    np.testing.assert_allclose(vector.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_T44_each_head_is_clipped_by_its_own_norm():
    actor, actor_vector = clipped(1.0, start=[0, 0])
    critic, critic_vector = clipped(1.0, start=[0, 0])
    assert step(actor, [3.0, 0.0]) == 3.0  # the norm before the clip is what is logged
    assert step(critic, [0.0, 4.0]) == 4.0
    np.testing.assert_allclose(actor_vector.numpy(), [-1.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(critic_vector.numpy(), [0.0, -1.0], rtol=1e-6)


def test_T44_a_shared_weight_is_clipped_after_the_gradients_are_summed():
    optimizer, vector = clipped(5.0)
    step(optimizer, [10.0 - 7.0])
    np.testing.assert_allclose(vector.numpy(), [-3.0])


@pytest.mark.parametrize(
    ("clip_norm", "gradient", "moved"),
    [
        (float("inf"), [3.0, 4.0], [-3.0, -4.0]),
        (None, [3.0, 4.0], [-3.0, -4.0]),
        (0.5, [3.0, 4.0], [-0.3, -0.4]),
        (0.5, [0.0, 0.0], [0.0, 0.0]),
        (5.0, [3.0, 4.0], [-3.0, -4.0]),
        (None, [0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_T45_special_clip_norms(clip_norm, gradient, moved):
    optimizer, vector = clipped(clip_norm, start=[0, 0])
    step(optimizer, gradient)
    np.testing.assert_allclose(vector.numpy(), moved, rtol=1e-6)


@pytest.mark.parametrize("clip_norm", [0, 0.0, -1, -0.5, float("nan"), float("-inf")])
def test_T45_a_clip_norm_that_would_stop_or_fake_clipping_is_refused(clip_norm):
    with pytest.raises(ConfigError, match=r"ClippedOptimizer\.clip_norm = .*None is off"):
        ClippedOptimizer(OptimizerFactory(), clip_norm)


def test_clipping_is_on_by_default():
    assert ClippedOptimizer(OptimizerFactory()).clip_norm == 0.5


@pytest.mark.parametrize(
    ("settings", "parameter"),
    [
        ({"learning_rate": "3e-4"}, "learning_rate"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"algorithm": "adamw"}, "algorithm"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"momentum": -0.1}, "momentum"),
    ],
)
def test_T42_nonsense_is_refused_by_name(settings, parameter):
    with pytest.raises(ConfigError, match=rf"OptimizerFactory\.{parameter} = "):
        OptimizerFactory(**settings)


def test_T42_an_integer_learning_rate_is_a_number():
    rates = OptimizerFactory(learning_rate=1).learning_rates(0, 2, Progress())
    np.testing.assert_array_equal(rates, np.ones(2, np.float32))


def test_T41_each_coming_gradient_step_has_its_own_rate():
    factory = OptimizerFactory(learning_rate=ExponentialDecay(1e-3, 0.5, 10, "optimizer_steps"))
    rates = factory.learning_rates(16, 5, Progress())
    assert rates.dtype == np.float32
    expected = [3.298770e-4, 3.077861e-4, 2.871746e-4, 2.679434e-4, 2.5e-4]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    factory = OptimizerFactory(learning_rate=ExponentialDecay(1e-3, 0.5, 10, "iterations"))
    rates = factory.learning_rates(16, 3, Progress(iterations=1))
    np.testing.assert_allclose(rates, [9.330330e-4] * 3, rtol=1e-6)
