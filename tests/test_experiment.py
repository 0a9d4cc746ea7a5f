import warnings

import numpy as np
import pytest
import tiny
from toys import Noisy

from acx.checkpoints import load, save
from acx.critics import ValueNormalizer
from acx.environments.normalization import ObservationNormalizer, RewardNormalizer
from acx.errors import ConfigError
from acx.evaluation import Evaluation
from acx.policies import GaussianTanhHead
from acx.schedules import ExponentialDecay


@pytest.fixture(scope="module")
def long_episodes():
    """Seven iterations of 4 × 128 steps in which no episode of 1000 steps ends."""
    experiment = tiny.experiment(
        "toys:Counter-v0",
        env_options={"lengths": (1000,), "label": False},
        num_envs=4,
        rollout_length=128,
        iterations=7,
        epochs=4,
        minibatch_size=128,
        evaluation=Evaluation(final_episodes=1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return tiny.train(experiment)


def test_T13_without_a_finished_episode_there_is_no_return(long_episodes):
    assert len(long_episodes.reports) == 7
    for report in long_episodes.reports:
        assert not [tag for tag in report.scalars if tag.startswith("rollout/ep_")]
        assert report.scalars["rollout/episodes"] == 0
        assert np.isfinite(list(report.scalars.values())).all()
        assert not report.episodes


def test_T14_the_axis_is_environment_steps_and_other_counters_have_tags(long_episodes):
    steps = [report.env_steps for report in long_episodes.reports]
    assert steps == [512 * i for i in range(1, 8)]
    assert long_episodes.scalars("time/total_timesteps") == steps
    assert long_episodes.scalars("time/iterations") == list(range(1, 8))
    assert long_episodes.scalars("train/n_updates") == [16 * i for i in range(1, 8)]


def test_T11_the_logged_return_is_that_of_finished_episodes_only():
    experiment = tiny.experiment(
        "toys:CounterDisabled-v0",
        env_options={"lengths": (2, 3)},
        num_envs=2,
        rollout_length=4,
        iterations=2,
    )
    recorder = tiny.train(experiment)
    # In both environments: episodes of 2, 3 and 2 steps; the first four steps end one.
    assert [e.episode_return for e in recorder.reports[0].episodes] == [2.0, 2.0]
    assert recorder.scalars("rollout/ep_rew_mean") == [2.0, pytest.approx(7 / 3)]
    assert recorder.scalars("rollout/episodes") == [2, 6]
    assert recorder.scalars("rollout/ep_len_mean") == [2.0, pytest.approx(7 / 3)]


def test_reports_average_over_the_iterations_between_them():
    every = tiny.train(tiny.experiment(iterations=4))
    second = tiny.train(tiny.experiment(iterations=4, log_every=2))
    assert [report.env_steps for report in second.reports] == [32, 64]
    losses = every.scalars("train/value_loss")
    expected = [np.mean(losses[:2]), np.mean(losses[2:])]
    assert second.scalars("train/value_loss") == pytest.approx(expected, rel=1e-6)
    counts = [len(report.episodes) for report in every.reports]
    assert [len(report.episodes) for report in second.reports] == [
        counts[0] + counts[1],
        counts[2] + counts[3],
    ]


def test_T63_every_episode_of_training_and_evaluation_has_a_seed_of_its_own():
    seeds = []
    for seed in (0, 1):
        Noisy.seeds.clear()
        experiment = tiny.experiment(
            env_options={"length": 3},
            num_envs=4,
            seed=seed,
            evaluation=Evaluation(every=32, episodes=3, final_episodes=4),
        )
        tiny.train(experiment)
        seeds += [s for s in Noisy.seeds if s not in (0, 1)]  # those are the first try's
    assert len(seeds) >= 2 * (4 + 3 + 4)
    assert len(set(seeds)) == len(seeds)


def test_the_budget_is_never_exceeded():
    experiment = tiny.experiment(iterations=2)
    experiment.total_steps += 15  # one less than a rollout
    recorder = tiny.train(experiment)
    assert [report.env_steps for report in recorder.reports] == [16, 32]


def test_a_budget_below_one_rollout_is_refused():
    with pytest.raises(ConfigError, match=r"total_steps = 0|greater than 0"):
        tiny.experiment(iterations=0)


def resumable(iterations):
    schedule = ExponentialDecay(1e-3, 0.5, 10, "optimizer_steps")
    return tiny.experiment(
        env_options={"actions": "box", "offset": 2.0},  # episodes of 7 steps stay open
        head=GaussianTanhHead(),
        iterations=iterations,
        epochs=5,
        minibatch_size=8,
        entropy_coef=0.01,
        normalize_advantages=True,
        observation_normalizer=ObservationNormalizer(),
        reward_normalizer=RewardNormalizer(),
        value_normalizer=ValueNormalizer(),
        actor_optimizer=tiny.optimizer(learning_rate=schedule),
        critic_optimizer=tiny.optimizer(learning_rate=schedule),
    )


def run(experiment, resume_from=None):
    """Returns the recorder and the last state that was to be saved."""
    states, recorder = [], tiny.Recorder()
    experiment.build()
    experiment.run([recorder], lambda steps, state: states.append((steps, state)), resume_from)
    return recorder, states[-1]


@pytest.fixture(scope="module")
def straight_and_resumed(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "half.ckpt"
    straight = resumable(4)
    straight_run = run(straight)
    _, (steps, state) = run(resumable(2))
    save(path, state)
    Noisy.seeds.clear()
    resumed = resumable(4)
    resumed_run = run(resumed, load(path))
    return straight, straight_run, resumed, resumed_run, steps


def test_T47_T50_a_resumed_run_is_the_straight_one_bit_for_bit(straight_and_resumed):
    straight, (_, (_, expected)), resumed, (_, (_, found)), steps = straight_and_resumed
    assert steps == 32
    assert found.keys() == expected.keys()
    for name, value in tiny.weights(straight).items():
        np.testing.assert_array_equal(tiny.weights(resumed)[name], value)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_T47_schedules_counters_and_the_budget_go_on(straight_and_resumed):
    _, (straight, _), _, (resumed, _), _ = straight_and_resumed
    assert [report.env_steps for report in resumed.reports] == [48, 64]
    assert resumed.scalars("train/n_updates") == [30, 40]
    # The last of 40 steps is number 39; a schedule that started again would be at 19.
    assert resumed.scalars("train/learning_rate")[-1] == pytest.approx(1e-3 * 0.5**3.9)
    for tag, value in straight.reports[-1].scalars.items():
        if not tag.startswith("time/"):
            assert resumed.reports[-1].scalars[tag] == value, tag
    assert resumed.scalars("time/iterations") == [3, 4]


def test_T47_T50_the_final_evaluation_is_the_same(straight_and_resumed):
    _, (straight, _), _, (resumed, _), _ = straight_and_resumed
    assert straight.evaluations[-1][0] == resumed.evaluations[-1][0] == 64
    np.testing.assert_array_equal(
        straight.evaluations[-1][1].returns, resumed.evaluations[-1][1].returns
    )
