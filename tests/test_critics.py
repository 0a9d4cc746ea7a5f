"""What the critic learns, where values are normalized."""

import numpy as np
import pytest
import tiny

from acx.critics import ValueNormalizer
from acx.errors import ConfigError


def normalizer(mean, std):
    """One that has seen a single rollout."""
    found = ValueNormalizer(decay=0.5)
    found.update(mean, std)
    return found


def test_the_moments_are_those_of_the_rollouts_weighted_by_their_age():
    found = ValueNormalizer(decay=0.5)
    assert found.moments == (0.0, 1.0)
    found.update(mean=10.0, std=2.0)
    assert found.moments == pytest.approx((10.0, 2.0))
    found.update(mean=4.0, std=1.0)
    # Weights 1/3 and 2/3: mean 6, mean square (104 + 2·17)/3 = 46.
    assert found.moments == pytest.approx((6.0, 10.0**0.5))


def test_returns_that_are_all_the_same_leave_a_least_deviation():
    assert normalizer(5.0, 0.0).moments == pytest.approx((5.0, 1e-2))


def test_the_state_goes_on():
    straight, resumed = normalizer(3.0, 2.0), ValueNormalizer(decay=0.5)
    resumed.load_state(straight.state())
    for found in (straight, resumed):
        found.update(7.0, 1.0)
    assert resumed.moments == straight.moments


def test_a_decay_of_one_is_refused():
    with pytest.raises(ConfigError, match=r"decay = 1\.0"):
        ValueNormalizer(decay=1.0)


COUNTER = {
    "env_id": "toys:Counter-v0",
    "env_options": {"lengths": (3, 20)},  # the second one is cut by the rollout
    "iterations": 1,
    "normalize_advantages": True,
}


@pytest.mark.parametrize("minibatch_size", [None, 4])  # in one program, and in several
def test_a_hundredfold_reward_with_its_deviation_trains_as_the_plain_one(minibatch_size):
    changes = {**COUNTER, "minibatch_size": minibatch_size}
    plain = tiny.experiment(**changes)
    scaled = tiny.experiment(**changes, reward_scale=100.0, value_normalizer=normalizer(0.0, 100.0))
    tiny.train(plain)
    tiny.train(scaled)
    for name, weights in tiny.weights(plain).items():
        np.testing.assert_allclose(tiny.weights(scaled)[name], weights, rtol=1e-3, atol=1e-5)


def test_values_are_in_units_of_the_reward_and_the_loss_in_those_of_the_critic():
    experiment = tiny.experiment(**COUNTER, value_normalizer=normalizer(50.0, 2.0))
    [scalars] = [report.scalars for report in tiny.train(experiment).reports]
    value, mean, std = (scalars[f"train/{x}"] for x in ("value_mean", "return_mean", "return_std"))
    assert abs(value - 50.0) < 6.0  # a fresh critic is near 0
    squared_error = (1 - scalars["train/explained_variance"]) * std**2 + (mean - value) ** 2
    assert scalars["train/value_loss"] == pytest.approx(squared_error / 2.0**2, rel=1e-3)
    moments = experiment.agent.value_normalizer.moments
    assert moments[0] == pytest.approx((50 + 2 * mean) / 3, rel=1e-6)
    square = (50**2 + 2**2 + 2 * (mean**2 + std**2)) / 3
    assert moments[1] == pytest.approx((square - moments[0] ** 2) ** 0.5, rel=1e-6)


def test_a_truncated_episode_bootstraps_from_a_value_in_units_of_the_reward():
    options = {"lengths": (2,), "reward": 0.0, "ends": ("truncated",)}
    changes = {**COUNTER, "env_options": options, "normalize_advantages": False}
    recorder = tiny.train(tiny.experiment(**changes, value_normalizer=normalizer(50.0, 1e-3)))
    # All values are 50 and rewards 0, so a step before the next one's value is worth γ · 50.
    assert recorder.scalars("train/return_mean")[0] == pytest.approx(0.99 * 50, rel=2e-2)
