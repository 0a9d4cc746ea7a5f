import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from acx.environments.normalization import ObservationNormalizer, RewardNormalizer, RunningMoments


def normalizer(*observations, **settings):
    """A normalizer of one-dimensional observations that has seen these."""
    found = ObservationNormalizer(**settings)
    found.build((1,))
    if observations:
        found.update(np.array(observations, np.float64)[:, None])
    return found


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    st.sampled_from([0.0, 1.0, -1e6, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_moments_of_batches_equal_numpy_of_all_far_from_zero(sizes, mean, std):
    rng = np.random.default_rng(0)
    batches = [rng.normal(mean, std, (size, 3)) for size in sizes]
    moments = RunningMoments((3,))
    for batch in batches:
        moments.update(batch)
    everything = np.concatenate(batches)
    assert moments.count == len(everything)
    if len(everything) > 0:
        np.testing.assert_allclose(moments.mean, everything.mean(axis=0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            moments.variance, everything.var(axis=0), rtol=1e-6, atol=1e-8 * std**2
        )


def test_float32_batches_around_a_million_keep_their_variance():
    rng = np.random.default_rng(0)
    batches = (1e6 + rng.normal(0, 1.0, (100, 256, 2))).astype(np.float32)
    moments = RunningMoments((2,))
    for batch in batches:
        moments.update(batch)
    expected = batches.astype(np.float64).reshape(-1, 2).var(axis=0)
    np.testing.assert_allclose(moments.variance, expected, rtol=1e-6)


def test_T48_the_statistics_of_a_checkpoint_are_all_there_is():
    found = normalizer(0, 2, 4)
    assert found.moments.count == 3
    np.testing.assert_allclose(found.moments.mean, [2.0])
    np.testing.assert_allclose(found.moments.variance, [2.666667], rtol=1e-6)
    loaded = normalizer()
    np.testing.assert_allclose(loaded.normalize(np.array([[6.0]])), [[6.0]])
    loaded.load_state({name: np.array(value) for name, value in found.state().items()})
    np.testing.assert_allclose(loaded.normalize(np.array([[6.0]])), [[2.449490]], rtol=1e-6)
    loaded.update(np.array([[8.0]]))  # the count was loaded too
    np.testing.assert_allclose(loaded.moments.mean, [3.5])
    np.testing.assert_allclose(loaded.moments.variance, [8.75])


def test_T49_normalizing_never_changes_the_statistics():
    found = normalizer(0, 2, 4, clip=1e6)
    found.normalize(np.array([[100.0]]))
    np.testing.assert_allclose(found.normalize(np.array([[6.0]])), [[2.449490]], rtol=1e-6)
    assert found.moments.count == 3


def test_normalized_observations_are_float32_and_clipped():
    found = normalizer(0, 2, 4, clip=2.0).normalize(np.array([[6.0], [2.0], [-99.0]]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[2.0], [0.0], [-2.0]])


def test_a_constant_observation_becomes_zero():
    found = normalizer(5, 5, 5)
    np.testing.assert_array_equal(found.normalize(np.array([[5.0]])), [[0.0]])


def test_the_first_batch_is_not_diluted():
    found = normalizer(1000, 1002)
    np.testing.assert_allclose(found.normalize(np.array([[1002.0]])), [[1.0]], rtol=1e-6)


def reference_returns(rewards, done, gamma):
    history = []
    for n in range(rewards.shape[1]):
        total = 0.0
        for t in range(rewards.shape[0]):
            total = gamma * total + rewards[t, n]
            history.append(total)
            if done[t, n]:
                total = 0.0
    return history


def test_the_reward_scale_is_the_deviation_of_the_discounted_return_within_episodes():
    rng = np.random.default_rng(0)
    rewards = rng.normal(3, 2, (40, 3))
    done = (rng.random((40, 3)) < 0.2).astype(np.float32)
    found = RewardNormalizer()
    for part in (slice(0, 7), slice(7, 40)):  # returns go on from one rollout to the next
        found.update(rewards[part], done[part], np.ones_like(done[part]), 0.9)
    expected = np.std(reference_returns(rewards, done, 0.9))
    assert found.scale == pytest.approx(1 / expected, rel=1e-6)
    np.testing.assert_allclose(found.normalize(rewards), rewards / expected, rtol=1e-5)


def test_T06_inserted_rows_enter_no_reward_statistic():
    with_row, without = RewardNormalizer(), RewardNormalizer()
    column = lambda *values: np.array(values, np.float64)[:, None]  # noqa: E731
    with_row.update(column(1, 2, 0, 3), column(0, 1, 0, 0), column(1, 1, 0, 1), 0.9)
    without.update(column(1, 2, 3), column(0, 1, 0), column(1, 1, 1), 0.9)
    assert with_row.scale == without.scale
    assert with_row.moments.count == without.moments.count == 3


def test_rewards_before_any_statistic_are_unchanged():
    np.testing.assert_allclose(RewardNormalizer().normalize(np.array([2.0])), [2.0], rtol=1e-6)


def test_the_reward_normalizers_state_goes_on():
    rewards, zeros = np.arange(12.0).reshape(6, 2), np.zeros((6, 2))
    straight, first, second = (RewardNormalizer() for _ in range(3))
    straight.update(rewards, zeros, zeros + 1, 0.9)
    straight.update(rewards, zeros, zeros + 1, 0.9)
    first.update(rewards, zeros, zeros + 1, 0.9)
    second.load_state({name: np.array(value) for name, value in first.state().items()})
    second.update(rewards, zeros, zeros + 1, 0.9)
    assert second.scale == straight.scale
