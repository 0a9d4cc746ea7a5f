import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings

from acx.advantages import (
    GAE,
    TD,
    gae_advantages,
    normalize,
    require_same_shape,
    reverse_scan,
    td_advantages,
    td_errors,
)


def column(*values):
    """One environment's values as a [T, 1] tensor."""
    return tf.constant(values, tf.float32)[:, None]


def gae(rewards, values, next_values, terminated, truncated, gamma, lam):
    columns = [column(*c) for c in (rewards, values, next_values, terminated, truncated)]
    advantages = gae_advantages(*columns, gamma, lam)
    assert advantages.shape == (len(rewards), 1)
    return advantages.numpy()[:, 0]


def td(rewards, values, next_values, terminated, truncated, gamma, n):
    columns = [column(*c) for c in (rewards, values, next_values, terminated, truncated)]
    return td_advantages(*columns, gamma, n).numpy()[:, 0]


# Four steps of one environment, the second of which a time limit cut.
REWARDS = [1, 1, 1, 1]
VALUES = [0.5, 0.6, 0.7, 0.8]
NEXT_VALUES = [0.6, 2.0, 0.8, 0.9]
NEVER = [0, 0, 0, 0]
SECOND = [0, 1, 0, 0]
CUT = (REWARDS, VALUES, NEXT_VALUES, NEVER, SECOND)


def test_T01_truncation_bootstraps_from_the_final_observation_and_cuts_lambda():
    advantages = gae(*CUT, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(advantages, [2.624, 2.2, 1.7472, 1.01], rtol=1e-6)
    np.testing.assert_allclose(advantages + VALUES, [3.124, 2.8, 2.4472, 1.81], rtol=1e-6)


def test_T01_termination_in_the_same_place_does_not_bootstrap():
    advantages = gae(REWARDS, VALUES, NEXT_VALUES, SECOND, NEVER, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(advantages, [1.328, 0.4, 1.7472, 1.01], rtol=1e-6)


@pytest.mark.parametrize("truncated", [0, 1])
def test_T02_termination_wins_over_truncation(truncated):
    assert gae([1], [2], [2], [1], [truncated], gamma=0.99, lam=0.95) == pytest.approx([-1.0])
    assert td([1], [2], [2], [1], [truncated], gamma=0.99, n=1) == pytest.approx([-1.0])


@pytest.mark.parametrize(("terminated", "advantage"), [(0, 2.3), (1, 0.5)])
def test_T04_the_last_row_bootstraps_unless_terminated(terminated, advantage):
    [found] = gae([1], [0.5], [2], [terminated], [0], gamma=0.9, lam=0.95)
    assert found == pytest.approx(advantage)
    assert found + 0.5 == pytest.approx({0: 2.8, 1: 1.0}[terminated])


def test_T04_each_environment_has_its_own_last_value():
    zeros = tf.zeros((1, 2))
    advantages = gae_advantages(zeros, zeros, tf.constant([[0.0, 10.0]]), zeros, zeros, 0.9, 0.95)
    np.testing.assert_allclose(advantages, [[0.0, 9.0]])


@pytest.mark.parametrize(
    ("gamma", "lam", "advantages"),
    [
        (0.9, 0.0, [1.04, 2.2, 1.02, 1.01]),
        (0.9, 1.0, [3.02, 2.2, 1.929, 1.01]),
        (0.0, 0.8, [0.5, 0.4, 0.3, 0.2]),
    ],
)
def test_T05_gae_at_the_ends_of_lambda_and_gamma(gamma, lam, advantages):
    np.testing.assert_allclose(gae(*CUT, gamma, lam), advantages, rtol=1e-6)


def test_T05_gae_with_lambda_0_is_one_step_td():
    np.testing.assert_allclose(td(*CUT, gamma=0.9, n=1), [1.04, 2.2, 1.02, 1.01], rtol=1e-6)


def test_T05_the_terminal_step_has_no_next_value():
    advantages = gae([1, 1, 1], [2, 2, 2], [2, 2, 2], [0, 0, 1], [0, 0, 0], 0.99, 0.95)
    np.testing.assert_allclose(advantages, [1.017150, 0.0395, -1.0], rtol=1e-5)


def test_gae_with_lambda_1_is_the_monte_carlo_return_less_the_value():
    # 1 + .9·(2 + .9·(3 + .9·10)) = 12.52 bootstrapped, 1 + .9·(2 + .9·3) = 5.23 terminated
    values = np.array([4, 5, 6])
    returns = gae([1, 2, 3], values, [5, 6, 10], [0, 0, 0], [0, 0, 0], 0.9, 1.0) + values
    np.testing.assert_allclose(returns, [12.52, 12.8, 12.0], rtol=1e-6)
    returns = gae([1, 2, 3], values, [5, 6, 10], [0, 0, 1], [0, 0, 0], 0.9, 1.0) + values
    np.testing.assert_allclose(returns, [5.23, 4.7, 3.0], rtol=1e-6)


def test_two_step_td_by_hand():
    # Row 0: 1 + .5·1 + .25·V(s'_1)=2 -> 2.0; row 1 is cut: 1 + .5·2 = 2; row 2: 1 + .5·1 + .25·.9.
    returns = td(*CUT, gamma=0.5, n=2) + VALUES
    np.testing.assert_allclose(returns, [2.0, 2.0, 1.725, 1.45], rtol=1e-6)


@pytest.mark.parametrize("n", [4, 5, 100])
def test_td_over_at_least_the_whole_rollout_is_gae_with_lambda_1(n):
    np.testing.assert_allclose(td(*CUT, 0.9, n), gae(*CUT, 0.9, 1.0), rtol=1e-6)


def reference_gae(rewards, values, next_values, terminated, truncated, gamma, lam):
    """Σ_l (γλ)^l δ_{t+l}, summed to the end of the episode or rollout."""
    steps, envs = rewards.shape
    advantages = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                bootstrap = 0.0 if terminated[k, n] else gamma * next_values[k, n]
                delta = rewards[k, n] + bootstrap - values[k, n]
                advantages[t, n] += (gamma * lam) ** (k - t) * delta
                if terminated[k, n] or truncated[k, n]:
                    break
    return advantages


def reference_td(rewards, values, next_values, terminated, truncated, gamma, n_steps):
    """Σ_{k<m} γ^k r_{t+k} + γ^m V, m the first of n steps, episode end and rollout end."""
    steps, envs = rewards.shape
    advantages = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            total = 0.0
            for k in range(n_steps):
                total += gamma**k * rewards[t + k, n]
                over = terminated[t + k, n] or truncated[t + k, n]
                if over or k == n_steps - 1 or t + k == steps - 1:
                    if not terminated[t + k, n]:
                        total += gamma ** (k + 1) * next_values[t + k, n]
                    break
            advantages[t, n] = total - values[t, n]
    return advantages


@st.composite
def rollouts(draw):
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rewards, values, next_values = rng.normal(size=(3, *shape))
    flags = st.lists(st.sampled_from("...tub"), min_size=shape[0], max_size=shape[0])
    ends = np.array([draw(flags) for _ in range(shape[1])]).T
    terminated = np.isin(ends, ["t", "b"])
    truncated = np.isin(ends, ["u", "b"])
    return [a.astype(np.float32) for a in (rewards, values, next_values, terminated, truncated)]


unit = st.sampled_from([0.0, 0.3, 0.9, 1.0])


@settings(max_examples=150, deadline=None)
@given(rollouts(), unit, unit)
def test_gae_equals_its_definition_on_random_episode_ends(arrays, gamma, lam):
    found = gae_advantages(*map(tf.constant, arrays), gamma, lam)
    np.testing.assert_allclose(found, reference_gae(*arrays, gamma, lam), atol=1e-5)


@settings(max_examples=150, deadline=None)
@given(rollouts(), unit, st.integers(1, 12))
def test_td_equals_its_definition_on_random_episode_ends(arrays, gamma, n_steps):
    found = td_advantages(*map(tf.constant, arrays), gamma, n_steps)
    np.testing.assert_allclose(found, reference_td(*arrays, gamma, n_steps), atol=1e-5)


@settings(max_examples=50, deadline=None)
@given(rollouts(), unit)
def test_the_components_agree_at_gae_0_and_td_1(arrays, gamma):
    tensors = [tf.constant(array) for array in arrays]
    one_step = TD(gamma, n_steps=1).estimate(*tensors, gamma=gamma)
    lambda_0 = GAE(gamma, gae_lambda=0.0).estimate(*tensors, gamma=gamma, gae_lambda=0.0)
    np.testing.assert_allclose(one_step, lambda_0, atol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3, 64, 100])
def test_reverse_scan_equals_the_loop(steps):
    rng = np.random.default_rng(0)
    deltas, decays = rng.normal(size=(2, steps, 3)).astype(np.float32)
    expected = np.zeros((steps, 3))
    following = np.zeros(3)
    for t in reversed(range(steps)):
        following = expected[t] = deltas[t] + decays[t] * following
    found = reverse_scan(tf.constant(deltas), tf.constant(decays))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_unequal_shapes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"rewards \(3, 2\), values \(3, 1\)"):
        td_errors(tf.zeros((3, 2)), tf.zeros((3, 1)), tf.zeros((3, 2)), tf.zeros((3, 2)), 0.9)
    with pytest.raises(ValueError, match="truncated"):
        gae_advantages(*[tf.zeros((3, 2))] * 4, tf.zeros((2, 3)), 0.9, 0.9)
    with pytest.raises(ValueError, match="shapes must be equal: a"):
        require_same_shape(a=tf.zeros(3), b=tf.zeros((3, 1)))


def test_normalize_uses_the_valid_rows_only():
    advantages = tf.constant([[1.0], [3.0], [1000.0], [5.0]])
    found = normalize(advantages, tf.constant([[1.0], [1.0], [0.0], [1.0]]))
    np.testing.assert_allclose(found[:, 0], [-(1.5**0.5), 0.0, 0.0, 1.5**0.5], rtol=1e-5)


@pytest.mark.parametrize("rows", [4, 100, 2048])
@pytest.mark.parametrize("value", [0.0, 0.1, 123.456, -16.27, 1e6 + 0.1])
def test_normalize_makes_equal_advantages_zero(value, rows):
    compiled = tf.function(normalize, jit_compile=True)
    for function in (normalize, compiled):
        found = function(tf.fill((rows, 2), value), tf.ones((rows, 2)))
        np.testing.assert_allclose(found, np.zeros((rows, 2)), atol=1e-3)


def test_normalize_keeps_small_differences_around_a_large_mean():
    advantages = np.random.default_rng(0).normal(100.0, 0.01, (256, 4)).astype(np.float32)
    expected = (advantages - advantages.mean(dtype=np.float64)) / advantages.std(dtype=np.float64)
    found = normalize(tf.constant(advantages), tf.ones((256, 4)))
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-3)


def test_normalize_of_no_valid_row_is_zero():
    np.testing.assert_array_equal(normalize(tf.ones((2, 2)), tf.zeros((2, 2))), np.zeros((2, 2)))
