import numpy as np
import pytest
import tensorflow as tf

from acx.errors import ConfigError
from acx.objectives import (
    ClippedSurrogate,
    CriticLoss,
    QuadraticSurrogate,
    approximate_kl,
    clipped_squared_error,
    clipped_surrogate_loss,
    policy_gradient_loss,
    quadratic_surrogate_loss,
    squared_error,
    weighted_mean,
)
from acx.policies import gaussian_log_prob
from acx.schedules import LinearDecay, Progress

ONE = np.ones(1, np.float32)


def tensor(*values):
    return tf.constant(values, tf.float32)


def test_T18_equal_values_and_returns_have_no_loss():
    values = tensor(1, 2, 3)
    assert squared_error(values, values, tf.ones(3)) == 0.0
    loss = squared_error(tensor(0, 1, 2, 3), tensor(1, 1, 1, 1), tf.ones(4))
    assert loss.shape == ()
    assert float(loss) == pytest.approx((1 + 0 + 1 + 4) / 4)


def test_T18_a_unit_axis_is_refused_before_it_can_broadcast():
    column, row = tf.constant([[1.0], [2.0], [3.0]]), tensor(1, 2, 3)
    weight = tf.ones(3)
    with pytest.raises(ValueError, match=r"values \(3, 1\), returns \(3,\)"):
        squared_error(column, row, weight)
    with pytest.raises(ValueError, match="returns"):
        squared_error(row, column, weight)
    with pytest.raises(ValueError, match="weight"):
        squared_error(row, row, tf.ones((3, 1)))
    with pytest.raises(ValueError, match="old_values"):
        clipped_squared_error(row, column, row, weight, 0.2)
    with pytest.raises(ValueError, match="weight"):
        clipped_squared_error(row, row, row, tf.ones((3, 1)), 0.2)
    with pytest.raises(ValueError, match="advantage"):
        policy_gradient_loss(row, column, weight)
    with pytest.raises(ValueError, match="advantage"):
        clipped_surrogate_loss(row, column, weight, 0.2)


def test_T19_the_log_prob_is_summed_before_it_meets_the_advantage():
    log_prob = tf.reduce_sum(tf.constant([[-1.0, -2.0], [-3.0, -4.0]]), axis=-1)
    assert policy_gradient_loss(log_prob, tensor(1, 10), tf.ones(2)) == 36.5
    # By the head's own function: actions that far from 0 have these log-probabilities.
    zeros = tf.zeros((2, 2))
    half_log = 0.5 * np.log(2 * np.pi)
    distance = np.sqrt(2 * (np.array([[1.0, 2.0], [3.0, 4.0]]) - half_log)).astype(np.float32)
    found = gaussian_log_prob(zeros, zeros, tf.constant(distance))
    assert float(policy_gradient_loss(found, tensor(1, 10), tf.ones(2))) == pytest.approx(36.5)


def test_T20_the_actors_loss_does_not_train_the_critic():
    w = tf.Variable(0.0)
    for loss in (policy_gradient_loss, lambda *a: clipped_surrogate_loss(*a, 0.2)):
        with tf.GradientTape() as tape:
            advantage = tf.reshape(1.0 - w, (1,))
            value = loss(tensor(-1.0), advantage, ONE)
        assert tape.gradient(value, w) is None
    with tf.GradientTape() as tape:
        value = squared_error(tf.reshape(w, (1,)), ONE, ONE)
    assert tape.gradient(value, w) == -2.0


def test_T20_the_critics_target_is_a_constant():
    w = tf.Variable(3.0)
    for loss in (squared_error, lambda v, g, m: clipped_squared_error(v, v * 0, g, m, 0.2)):
        with tf.GradientTape() as tape:
            value = loss(ONE, tf.reshape(w, (1,)), ONE)
        assert tape.gradient(value, w) is None


@pytest.mark.parametrize(
    ("old", "new", "loss", "gradient"), [(5.0, 1.0, 81.0, -18.0), (1.0, 5.0, 77.44, 0.0)]
)
def test_T22_value_clipping_takes_the_larger_error(old, new, loss, gradient):
    values = tf.Variable([new])
    with tf.GradientTape() as tape:
        found = clipped_squared_error(values, tensor(old), tensor(10), ONE, 0.2)
    assert float(found) == pytest.approx(loss, rel=1e-6)
    assert tf.convert_to_tensor(tape.gradient(found, values)).numpy() == pytest.approx([gradient])


SURROGATE = [  # ratio, advantage, loss, gradient of the loss by the ratio, with ε = .2
    (1.1, 2.0, -2.2, -2.0),
    (1.5, 2.0, -2.4, 0.0),
    (0.5, 2.0, -1.0, -2.0),
    (1.5, -2.0, 3.0, 2.0),
    (0.5, -2.0, 1.6, 0.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "gradient"), SURROGATE)
def test_the_clipped_surrogate_by_hand(ratio, advantage, loss, gradient):
    variable = tf.Variable([ratio])
    with tf.GradientTape() as tape:
        found = clipped_surrogate_loss(variable, tensor(advantage), ONE, 0.2)
    assert float(found) == pytest.approx(loss, rel=1e-6)
    assert tape.gradient(found, variable).numpy() == pytest.approx([gradient])


# ρ·A − |A|·(ρ − 1)²/2ε with ε = 0.2: at 1 ± ε in A's direction the row has no gradient left, beyond
# it the gradient points back.
QUADRATIC = [
    (1.0, 2.0, -2.0, -2.0),
    (1.2, 2.0, -2.2, 0.0),
    (1.4, 2.0, -2.0, 2.0),
    (0.8, -1.0, 0.9, 0.0),
    (0.6, -1.0, 1.0, -1.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "gradient"), QUADRATIC)
def test_the_quadratic_surrogate_by_hand(ratio, advantage, loss, gradient):
    variable = tf.Variable([ratio])
    with tf.GradientTape() as tape:
        found = quadratic_surrogate_loss(variable, tensor(advantage), ONE, 0.2)
    assert float(found) == pytest.approx(loss, rel=1e-6)
    assert tape.gradient(found, variable).numpy() == pytest.approx([gradient], abs=1e-5)


def test_the_quadratic_surrogate_reports_what_the_clipped_one_does():
    rows = [tensor(-1.0, -2.0), tensor(-1.5, -2.0), tensor(1.0, 1.0), tf.ones(2)]
    loss, metrics = QuadraticSurrogate(0.2).loss(*rows, clip_range=tf.constant(0.2))
    _, clipped = ClippedSurrogate(0.2).loss(*rows, clip_range=tf.constant(0.2))
    assert metrics == clipped
    ratio = tf.exp(rows[0] - rows[1])
    assert loss == quadratic_surrogate_loss(ratio, rows[2], rows[3], 0.2)


def test_T06_masked_rows_count_nowhere():
    weight = tensor(1, 0, 1)
    nan_free = tensor(1, 999, 3)
    assert weighted_mean(nan_free, weight) == 2.0
    assert policy_gradient_loss(nan_free, tensor(1, 1e6, 1), weight) == -2.0
    assert squared_error(nan_free, tensor(0, 0, 0), weight) == 5.0
    assert clipped_squared_error(nan_free, nan_free, tensor(0, 0, 0), weight, 0.2) == 5.0
    assert clipped_surrogate_loss(nan_free, tensor(-1, -1, -1), weight, 0.2) == 2.0
    variable = tf.Variable([1.0, 999.0, 3.0])
    with tf.GradientTape() as tape:
        loss = squared_error(variable, tensor(0, 0, 0), weight)
    np.testing.assert_allclose(tape.gradient(loss, variable), [1.0, 0.0, 3.0])


def test_no_valid_row_gives_zero():
    assert weighted_mean(tensor(1, 2), tf.zeros(2)) == 0.0
    assert squared_error(tensor(1, 2), tensor(0, 0), tf.zeros(2)) == 0.0


def test_the_kl_estimate_is_unbiased_and_never_negative():
    """Of N(0, 1) to N(.3, 1), whose divergence is .3²/2."""
    x = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    log_ratio = -0.5 * (x - 0.3) ** 2 + 0.5 * x**2
    assert float(approximate_kl(tf.constant(log_ratio), tf.ones(len(x)))) == pytest.approx(
        0.045, abs=1e-3
    )
    for value in (-3.0, -0.1, 0.1, 3.0):
        assert approximate_kl(tensor(value), ONE) > 0
    assert approximate_kl(tensor(0.0), ONE) == 0


def test_the_objective_reports_the_fraction_of_clipped_ratios():
    log_ratio = tf.math.log(tensor(1.0, 1.1, 1.3, 0.7))
    _, metrics = ClippedSurrogate().loss(
        log_prob=log_ratio,
        old_log_prob=tf.zeros(4),
        advantage=tf.ones(4),
        weight=tensor(1, 1, 1, 0),
        clip_range=tf.constant(0.2),
    )
    assert float(metrics["clip_fraction"]) == pytest.approx(1 / 3)


def test_the_clip_ranges_follow_their_schedules():
    schedule = LinearDecay(0.4, 100, "env_steps", final_value=0.1)
    progress = Progress(env_steps=50)
    assert ClippedSurrogate(schedule).hyperparameters(progress) == {"clip_range": 0.25}
    assert CriticLoss(schedule).hyperparameters(progress) == {"clip_range": 0.25}
    assert CriticLoss().hyperparameters(progress) == {}


@pytest.mark.parametrize("wrong", [0.0, -0.2, float("nan"), float("inf"), "0.2"])
@pytest.mark.parametrize("component", [ClippedSurrogate, CriticLoss])
def test_nonsensical_clip_ranges_are_refused(component, wrong):
    with pytest.raises(ConfigError, match=f"{component.__name__}.clip_range"):
        component(clip_range=wrong)
