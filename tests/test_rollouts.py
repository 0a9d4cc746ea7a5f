import numpy as np
import pytest
import tiny
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toys import Counter, Faulty, unbounded

from acx.advantages import GAE
from acx.environments.normalization import ObservationNormalizer
from acx.environments.vector import VectorEnvironment
from acx.errors import RunError
from acx.policies import CategoricalHead, GaussianHead, GaussianTanhHead
from acx.rollouts import EpisodeStatistics, RolloutCollector

MODES = list(AutoresetMode)


def collector(
    makers, length, head=None, outputs=(0.0, 0.0), normalizer=None, mode=AutoresetMode.DISABLED
):
    """Collects with an actor that answers `outputs` to every observation."""
    envs = SyncVectorEnv(makers, copy=False, autoreset_mode=mode)
    head = head or CategoricalHead()
    head.build(envs.single_action_space)

    def actor(observations):
        return np.tile(np.array(outputs, np.float32), (len(observations), 1))

    return RolloutCollector(
        VectorEnvironment(envs, lambda i, e: 0),
        head,
        actor,
        normalizer,
        length,
        np.random.default_rng(0),
    )


def test_T10_stored_observations_are_copies():
    for reuse in (False, True):
        collect = collector([lambda r=reuse: Counter(lengths=(9,), reuse=r)], 4).collect
        np.testing.assert_array_equal(collect().observations[:, 0, 0], [0, 1, 2, 3])
        np.testing.assert_array_equal(collect().observations[:, 0, 0], [4, 5, 6, 7])


def test_a_rollout_in_the_middle_of_episodes():
    options = {"lengths": (3, 2), "ends": ("truncated", "terminated"), "reward": "observation"}
    trajectory = collector([lambda: Counter(**options)] * 2, 6).collect()
    assert trajectory.observations.dtype == trajectory.rewards.dtype == np.float32
    observed = [0, 1, 2, 100, 101, 200]
    for i in range(2):
        np.testing.assert_array_equal(trajectory.observations[:, i, 0], observed)
        np.testing.assert_array_equal(trajectory.rewards[:, i], observed)
        np.testing.assert_array_equal(trajectory.truncated[:, i], [0, 0, 1, 0, 0, 0])
        np.testing.assert_array_equal(trajectory.terminated[:, i], [0, 0, 0, 0, 1, 0])
        np.testing.assert_array_equal(trajectory.valid[:, i], np.ones(6))
    np.testing.assert_array_equal(trajectory.last_observations, [[201], [201]])
    np.testing.assert_array_equal(trajectory.final_observations, [[3], [3]])


def test_final_observations_are_in_the_order_of_the_truncated_rows():
    lengths = [(2, 9), (3, 9), (2, 9)]
    makers = [lambda n=n: Counter(lengths=n, ends=("truncated",)) for n in lengths]
    trajectory = collector(makers, 4).collect()
    assert np.argwhere(trajectory.truncated).tolist() == [[1, 0], [1, 2], [2, 1]]
    np.testing.assert_array_equal(trajectory.final_observations[:, 0], [2, 2, 3])
    assert len(collector(makers, 1).collect().final_observations) == 0


def test_T25_the_environment_gets_the_clipped_action_and_the_rollout_keeps_the_raw_one():
    env = Counter(lengths=(99,), actions=Box(-1.0, 1.0, (1,), np.float32))
    trajectory = collector([lambda: env], 50, GaussianHead(), outputs=(0.5, 0.5)).collect()
    raw, received = trajectory.actions[:, 0], np.array(env.received)
    assert np.abs(raw).max() > 1.5
    np.testing.assert_array_equal(received, np.clip(raw, -1, 1))


def test_T26_the_tanh_head_sends_actions_inside_the_space_and_keeps_their_raw_samples():
    space = Box(-2.0, 3.0, (1,), np.float32)
    env = Counter(lengths=(99,), actions=space)
    head = GaussianTanhHead(log_std_range=(-5, 3))
    trajectory = collector([lambda: env], 50, head, outputs=(0.0, 3.0)).collect()
    raw, received = trajectory.actions[:, 0], np.array(env.received)
    assert np.abs(raw).max() > 20
    assert all(space.contains(action) for action in received)
    np.testing.assert_allclose(received, 0.5 + 2.5 * np.tanh(raw), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("space", [Discrete(3, start=5), Discrete(1, start=2)])
def test_T33_the_environment_gets_its_own_numbering(space):
    envs = [Counter(lengths=(999,), actions=space) for _ in range(2)]
    outputs = [0.0] * int(space.n)
    trajectory = collector([lambda e=e: e for e in envs], 100, outputs=outputs).collect()
    for i, env in enumerate(envs):
        assert set(map(int, env.received)) == set(range(space.start, space.start + space.n))
        np.testing.assert_array_equal(env.received, trajectory.actions[:, i] + space.start)


def test_normalized_observations_are_stored_and_the_statistics_left_alone():
    normalizer = ObservationNormalizer()
    normalizer.build((1,))
    normalizer.update(np.array([[0.0], [2.0], [4.0]]))
    options = {"lengths": (3,), "ends": ("truncated",), "label": False}
    collecting = collector([lambda: Counter(**options)], 4, normalizer=normalizer)
    trajectory = collecting.collect()
    scale = 1 / np.sqrt(8 / 3)
    expected = (np.array([0, 1, 2, 0]) - 2) * scale
    np.testing.assert_allclose(trajectory.observations[:, 0, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(trajectory.final_observations, [[scale]], rtol=1e-6)
    np.testing.assert_allclose(trajectory.last_observations, [[-scale]], rtol=1e-6)
    np.testing.assert_array_equal(trajectory.raw_observations[:, 0, 0], [0, 1, 2, 0])
    assert normalizer.moments.count == 3


def test_T11_only_finished_episodes_are_counted():
    statistics = EpisodeStatistics(2)
    ones = np.ones(2)
    statistics.step(ones, None)
    statistics.step(ones, None)
    [episode] = statistics.end(np.array([False, True]))
    assert (episode.episode_return, episode.length) == (2.0, 2)
    statistics.step(ones, None)
    [episode] = statistics.end(np.array([True, False]))
    assert (episode.episode_return, episode.length) == (3.0, 3)
    assert statistics.finished == len(statistics.recent) == 2


@pytest.mark.parametrize("mode", MODES)
def test_T11_episodes_in_every_autoreset_mode(mode):
    makers = [lambda n=n: Counter(lengths=(n,), reward=0.5) for n in (3, 2)]
    episodes = collector(makers, 5, mode=mode).collect().episodes
    expected = {
        AutoresetMode.NEXT_STEP: [2, 3, 2],  # the second environment's rows: 1 1 - 1 1
        AutoresetMode.SAME_STEP: [2, 3, 2],
        AutoresetMode.DISABLED: [2, 3, 2],
    }[mode]
    assert [e.length for e in episodes] == expected
    assert [e.episode_return for e in episodes] == [n / 2 for n in expected]


def test_T06_inserted_rows_are_not_counted_as_environment_steps():
    collecting = collector([lambda: Counter(lengths=(3,))], 6, mode=AutoresetMode.NEXT_STEP)
    trajectory = collecting.collect()
    np.testing.assert_array_equal(trajectory.valid[:, 0], [1, 1, 1, 0, 1, 1])
    assert collecting.env_steps == 5
    trajectory = collecting.collect()  # the last episode ends in row 0, its reset is row 1
    np.testing.assert_array_equal(trajectory.valid[:, 0], [1, 0, 1, 1, 1, 0])
    assert collecting.env_steps == 9


def value(observations):
    """V(s) = .1 s."""
    return 0.1 * observations[..., 0]


def advantages(trajectory, gamma=0.9, gae_lambda=0.8):
    next_values = np.concatenate(
        [value(trajectory.observations)[1:], value(trajectory.last_observations)[None]]
    )
    next_values[trajectory.truncated > 0] = value(trajectory.final_observations)
    return (
        GAE(gamma, gae_lambda)
        .estimate(
            trajectory.rewards,
            value(trajectory.observations),
            next_values,
            trajectory.terminated,
            trajectory.truncated,
            gamma=gamma,
            gae_lambda=gae_lambda,
        )
        .numpy()
    )


COMPLETE = {
    "terminated": [2.28232, 1.656, 0.8, 1.8676, 1.08],
    "truncated": [2.422288, 1.8504, 1.07, 1.8676, 1.08],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", COMPLETE)
def test_T06_T07_the_same_advantages_in_every_autoreset_mode(mode, end):
    length = 6 if mode == AutoresetMode.NEXT_STEP else 5
    options = {"lengths": (3,), "ends": (end,), "label": False}
    trajectory = collector([lambda: Counter(**options)], length, mode=mode).collect()
    valid = trajectory.valid[:, 0] > 0
    np.testing.assert_allclose(advantages(trajectory)[valid, 0], COMPLETE[end], rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_random_episodes_give_the_same_rows_and_advantages_in_every_autoreset_mode(seed):
    rng = np.random.default_rng(seed)
    options = [
        {
            "lengths": tuple(rng.integers(1, 6, 4).tolist()),
            "ends": tuple(rng.choice(["terminated", "truncated", "both"], 5).tolist()),
            "reward": "observation",
        }
        for _ in range(3)
    ]
    found = []
    for mode in MODES:
        trajectory = collector([lambda o=o: Counter(**o) for o in options], 40, mode=mode).collect()
        advantage = advantages(trajectory)
        rows = []
        for i in range(3):
            done = np.maximum(trajectory.terminated, trajectory.truncated)[:, i]
            valid = trajectory.valid[:, i] > 0
            valid[np.flatnonzero(done)[-1] + 1 :] = False  # whole episodes only
            columns = (
                trajectory.observations[:, i, 0],
                trajectory.rewards[:, i],
                trajectory.terminated[:, i],
                trajectory.truncated[:, i],
                advantage[:, i],
            )
            rows.append(np.stack(columns, axis=-1)[valid])
        found.append(rows)
    for i in range(3):
        count = min(len(rows[i]) for rows in found)
        assert count >= 20
        for rows in found[1:]:
            np.testing.assert_allclose(rows[i][:count], found[0][i][:count], rtol=1e-5)


NOT_FINITE = ["reward nan", "reward inf", "observation nan", "observation inf"]


@pytest.mark.parametrize("normalizer", [None, ObservationNormalizer()], ids=["raw", "normalized"])
@pytest.mark.parametrize("fault", NOT_FINITE)
def test_T38_T39_a_value_that_is_not_finite_is_named_with_its_environment(fault, normalizer):
    if normalizer is not None:
        normalizer.build((1,))
    makers = [lambda: Faulty("reward nan", at=99), lambda: Faulty(fault, at=3)]
    collecting = collector(makers, 4, normalizer=normalizer)
    kind, what = fault.split()
    with pytest.raises(RunError, match=f"environment 1 returned the {kind} .*{what}"):
        collecting.collect()


def test_T39_a_final_observation_that_is_not_finite_is_refused():
    class Ends(Counter):
        def step(self, action):
            observation, *rest = super().step(action)
            return observation * np.float32(np.nan if self._steps == 3 else 1), *rest

    collecting = collector([Counter, lambda: Ends(ends=("truncated",))], 4)
    with pytest.raises(RunError, match="environment 1 returned the observation"):
        collecting.collect()


@pytest.mark.parametrize(
    ("reward", "stored"), [(1, 1.0), (True, 1.0), (np.float32(2.5), 2.5), (np.array(1.5), 1.5)]
)
def test_T38_numbers_of_every_kind_are_float32_rewards(reward, stored):
    options = {"reward": reward}
    trajectory = collector([lambda: Counter(**options)], 2).collect()
    assert trajectory.rewards.dtype == np.float32
    np.testing.assert_array_equal(trajectory.rewards, [[stored], [stored]])


def test_observations_of_other_dtypes_are_converted_once():
    class Bytes(Counter):
        def __init__(self):
            super().__init__(lengths=(9,))
            self.observation_space = Box(0, 255, (1,), np.uint8)

        def _observe(self):
            return np.array([self._steps + 250], np.uint8)

    trajectory = collector([Bytes], 4).collect()
    assert trajectory.observations.dtype == np.float32
    np.testing.assert_array_equal(trajectory.observations[:, 0, 0], [250, 251, 252, 253])
    assert unbounded(1).dtype == np.float32


def test_the_action_noise_is_the_only_randomness():
    found = []
    for _ in range(2):
        trajectory = collector([lambda: Counter(lengths=(99,))] * 2, 30).collect()
        found.append(trajectory.actions.copy())
    np.testing.assert_array_equal(*found)
    assert 0 < found[0].mean() < 1


def test_a_built_experiment_collects_with_its_actor():
    experiment = tiny.experiment(head=GaussianHead(), env_options={"actions": "box"})
    experiment.build()
    collecting = tiny.collector(experiment)
    trajectory = collecting.collect()
    outputs = experiment.agent.actor.model(trajectory.observations.reshape(-1, 3)).numpy()
    noise = (trajectory.actions.reshape(-1, 2) - outputs[:, :2]) / np.exp(outputs[:, 2:])
    expected = experiment.agent.policy_head.noise(
        tiny.generator(0, tiny.Stream.ACTIONS), trajectory.rewards.shape
    )
    np.testing.assert_allclose(noise, expected.reshape(-1, 2), atol=1e-5)
    collecting.environments.close()
