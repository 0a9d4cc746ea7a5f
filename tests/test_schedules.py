import keras
import numpy as np
import pytest

from acx.errors import ConfigError
from acx.schedules import ExponentialDecay, LinearDecay, Progress, value_at

STEPS = np.array([0, 1, 9, 10, 16, 19, 20, 99, 100, 1000])


@pytest.mark.parametrize("staircase", [False, True])
def test_exponential_decay_equals_keras(staircase):
    ours = ExponentialDecay(1e-3, 0.5, 10, "optimizer_steps", staircase)
    keras_schedule = keras.optimizers.schedules.ExponentialDecay(1e-3, 10, 0.5, staircase)
    expected = [float(keras_schedule(step)) for step in STEPS]
    np.testing.assert_allclose(ours.value(STEPS.astype(float)), expected, rtol=1e-5)


def test_linear_decay_equals_keras():
    ours = LinearDecay(1e-3, 100, "optimizer_steps", final_value=1e-4)
    keras_schedule = keras.optimizers.schedules.PolynomialDecay(1e-3, 100, 1e-4, power=1.0)
    expected = [float(keras_schedule(step)) for step in STEPS]
    np.testing.assert_allclose(ours.value(STEPS.astype(float)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("step", "smooth", "stairs"),
    [
        (16, 3.298770e-4, 5e-4),
        (1, 9.330330e-4, 1e-3),
        (19, 2.679434e-4, 5e-4),
        (20, 2.5e-4, 2.5e-4),
    ],
)
def test_T41_decay_after_steps_of_its_unit(step, smooth, stairs):
    for staircase, expected in ((False, smooth), (True, stairs)):
        schedule = ExponentialDecay(1e-3, 0.5, 10, "iterations", staircase)
        found = value_at(schedule, Progress(env_steps=7, iterations=step, optimizer_steps=3))
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("unit", ["env_steps", "iterations", "optimizer_steps"])
def test_each_unit_counts_what_its_name_says(unit):
    counts = {"env_steps": 10, "iterations": 20, "optimizer_steps": 30}
    schedule = LinearDecay(100.0, 100, unit)
    assert value_at(schedule, Progress(**counts)) == pytest.approx(100.0 - counts[unit])


def test_a_number_is_constant_over_all_coming_steps():
    found = value_at(0.5, Progress(optimizer_steps=np.arange(3)))
    np.testing.assert_array_equal(found, [0.5, 0.5, 0.5])


def test_T42_an_integer_initial_value_decays_like_a_float():
    schedule = ExponentialDecay(1, 0.5, 10, "iterations")
    assert schedule.value(np.float64(5)) == pytest.approx(0.5**0.5)


NONSENSE = [
    (("3e-4", 0.5, 10, "iterations"), "initial_value"),
    ((0.0, 0.5, 10, "iterations"), "initial_value"),
    ((1e-3, 0.0, 10, "iterations"), "decay_rate"),
    ((1e-3, 0.5, 0, "iterations"), "decay_steps"),
    ((1e-3, 0.5, -1, "iterations"), "decay_steps"),
    ((1e-3, 0.5, 2.5, "iterations"), "decay_steps"),
    ((1e-3, 0.5, 10, "epochs"), "unit"),
]


@pytest.mark.parametrize(("arguments", "parameter"), NONSENSE)
def test_T42_nonsense_is_refused_by_name(arguments, parameter):
    with pytest.raises(ConfigError, match=f"ExponentialDecay.{parameter} = "):
        ExponentialDecay(*arguments)


def test_T41_there_is_no_default_unit():
    with pytest.raises(ConfigError, match=r"ExponentialDecay\.unit is not set"):
        ExponentialDecay(1e-3, 0.5, 10)


def test_T42_a_growing_rate_is_warned_of():
    with pytest.warns(UserWarning, match=r"decay_rate = 1\.5.*grows"):
        ExponentialDecay(1e-3, 1.5, 10, "iterations")
