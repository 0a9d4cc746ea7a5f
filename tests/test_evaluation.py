import numpy as np
import pytest
import tiny
from toys import Lottery, Noisy

from acx.environments.factory import Environment
from acx.environments.normalization import ObservationNormalizer
from acx.errors import ConfigError, RunError
from acx.evaluation import Evaluation, EvaluationResult, evaluate
from acx.policies import CategoricalHead, GaussianTanhHead
from acx.seeding import Stream, episode_seed

STREAM = Stream.EVALUATION_EPISODES


def play(environment, episodes, seed=0, stream=STREAM, **options):
    """Evaluate a policy that prefers action 0."""
    head = CategoricalHead()
    head.build(environment.make_single().action_space)

    def actor(observations):
        return np.tile(np.array([1.0, 0.0], np.float32), (len(observations), 1))

    return evaluate(environment, head, actor, None, episodes, seed, stream, **options)


@pytest.mark.parametrize("episodes", [1, 5, 20, 25, 47])
def test_short_episodes_do_not_count_more_often(episodes):
    Lottery.seeds.clear()
    result = play(Environment("toys:Lottery-v0"), episodes)
    n = min(episodes, 20)
    seeds = [episode_seed(0, STREAM, k % n, k // n) for k in range(episodes)]
    assert set(seeds) <= set(Lottery.seeds)
    expected = [1 + seed % 30 for seed in seeds]
    assert result.lengths.tolist() == expected
    assert result.returns.tolist() == expected
    assert result.mean == pytest.approx(np.mean(expected))
    assert result.std == pytest.approx(np.std(expected))


def test_T79_episodes_start_from_different_fixed_seeds():
    first = play(Environment("toys:Noisy-v0"), 25)
    again = play(Environment("toys:Noisy-v0"), 25)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert len(set(first.returns)) == 25
    assert not np.array_equal(first.returns, play(Environment("toys:Noisy-v0"), 25, seed=1).returns)


def test_T63_final_evaluation_has_seeds_of_its_own():
    Noisy.seeds.clear()
    play(Environment("toys:Noisy-v0"), 10)
    during = set(Noisy.seeds)
    Noisy.seeds.clear()
    play(Environment("toys:Noisy-v0"), 10, stream=Stream.FINAL_EVALUATION_EPISODES)
    assert not during & set(Noisy.seeds)


def test_T79_the_deterministic_action_is_the_mode_squashed_once():
    experiment = tiny.experiment(
        "toys:Chasing-v0", env_options={"target": 0.0}, head=GaussianTanhHead(), hidden_sizes=()
    )
    experiment.build()
    tiny.set_weights(experiment, "actor", [0.0, 3.0, 0.0])  # mean 3, log std 0
    agent = experiment.agent
    for _ in range(2):
        result = evaluate(
            experiment.environment, agent.policy_head, experiment.actor, None, 3, 0, STREAM
        )
        np.testing.assert_allclose(result.returns, [-(0.995055**2)] * 3, rtol=1e-5)


def test_T49_T79_training_is_the_same_with_evaluation_on_and_off():
    found = []
    for every in (None, 16):
        experiment = tiny.experiment(
            env_options={"offset": 3.0},
            iterations=3,
            minibatch_size=8,
            observation_normalizer=ObservationNormalizer(),
            evaluation=Evaluation(every=every, episodes=3, final_episodes=1),
        )
        recorder = tiny.train(experiment)
        found.append((tiny.weights(experiment), recorder))
    (off, _), (on, recorder) = found
    assert [steps for steps, _, final in recorder.evaluations if not final] == [16, 32, 48]
    for name, value in off.items():
        np.testing.assert_array_equal(value, on[name])
    assert off["count"] == 48  # training's observations, and no others


def test_evaluations_come_after_the_multiples_that_were_asked_for():
    experiment = tiny.experiment(
        iterations=5, evaluation=Evaluation(every=40, episodes=1, final_episodes=2)
    )
    evaluations = tiny.train(experiment).evaluations
    assert [(steps, len(r.returns), final) for steps, r, final in evaluations] == [
        (48, 1, False),
        (80, 1, False),
        (80, 2, True),
    ]


def test_an_episode_without_an_end_is_an_error_with_advice():
    options = {"lengths": (10**9,)}
    environment = Environment("toys:Counter-v0", env_options=options)
    with pytest.raises(RunError, match=r"no end after 50 steps.*time limit"):
        play(environment, 2, max_steps=50)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("reward nan", "reward nan"),
        ("reward inf", "reward inf"),
        ("observation nan", r"observation \[nan\]"),
        ("observation inf", r"observation \[inf\]"),
    ],
)
def test_what_is_not_finite_is_named_and_never_averaged(fault, said):
    faulty_seed = episode_seed(0, STREAM, 1, 0)
    options = {"fault": fault, "seed": faulty_seed}
    with pytest.raises(RunError, match=rf"environment 1 of the evaluation returned the {said}"):
        play(Environment("toys:Faulty-v0", env_options=options), 3)


def test_a_result_says_mean_and_deviation():
    result = EvaluationResult(np.array([1.0, 3.0]), np.array([5, 5]))
    assert (result.mean, result.std) == (2.0, 1.0)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"episodes": 0}, {"final_episodes": -1}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"Evaluation.{next(iter(wrong))}"):
        Evaluation(**wrong)
