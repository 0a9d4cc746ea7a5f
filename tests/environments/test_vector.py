from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from toys import Counter

from acx.environments.factory import Environment
from acx.environments.vector import VectorEnvironment
from acx.errors import ConfigError

MODES = list(AutoresetMode)


def no_seed(environment, episode):
    return 0


def counters(mode, *options, copy=False, **vector_options):
    """One Counter for each dictionary of options, under the contract."""
    makers = [lambda o=o: Counter(**o) for o in options]
    return VectorEnvironment(
        SyncVectorEnv(makers, copy=copy, autoreset_mode=mode, **vector_options), no_seed
    )


def rows(environments, count):
    """Per environment: its valid rows as (observation, reward, terminated, truncated, next).

    `next` is the observation that the step led to: final where the row is truncated.
    """
    found: list[list[Any]] = [[] for _ in range(environments.num_envs)]
    observations = np.array(environments.reset())
    for _ in range(count):
        actions = np.zeros(environments.num_envs, int)
        step = environments.step(actions)
        finals = iter([] if step.final_observations is None else np.array(step.final_observations))
        for i in range(environments.num_envs):
            following = next(finals) if step.truncated[i] else step.observations[i]
            row = (
                float(observations[i, 0]),
                float(step.rewards[i]),
                bool(step.terminated[i]),
                bool(step.truncated[i]),
                None if step.terminated[i] else float(following[0]),
            )
            if step.valid is None or step.valid[i]:
                found[i].append(row)
        observations = np.array(step.observations)
    return found


EPISODES = (
    {"lengths": (3, 1, 2), "ends": ("truncated", "terminated", "both"), "reward": "observation"},
    {"lengths": (2,), "ends": ("terminated",)},
    {"lengths": (1, 4), "ends": ("truncated",), "reward": -0.5},
)


def expected_rows(count, lengths, ends, reward=1.0):
    found, episode = [], 0
    while len(found) < count:
        length, end = lengths[episode % len(lengths)], ends[episode % len(ends)]
        for step in range(length):
            observation = 100.0 * episode + step
            last = step == length - 1
            terminated = last and end != "truncated"
            found.append(
                (
                    observation,
                    observation if reward == "observation" else reward,
                    terminated,
                    last and end == "truncated",
                    None if terminated else observation + 1,
                )
            )
        episode += 1
    return found[:count]


@pytest.mark.parametrize("mode", MODES)
def test_every_autoreset_mode_gives_the_transitions_of_the_underlying_episodes(mode):
    environments = counters(mode, *EPISODES)
    for found, options in zip(rows(environments, 24), EPISODES, strict=True):
        # A row of NEXT_STEP goes to each reset, at most every second one.
        assert len(found) >= 12
        assert found == expected_rows(len(found), **options)
    environments.close()


@pytest.mark.parametrize("vectorization", ["sync", "parallel", "async"])
@pytest.mark.parametrize("options", EPISODES)
def test_made_environments_give_the_transitions_of_the_underlying_episodes(vectorization, options):
    environments = Environment("toys:Counter-v0", 2, vectorization, options).make(2, no_seed)
    try:
        for found in rows(environments, 12):
            assert found == expected_rows(12, **options)
    finally:
        environments.close()


def test_T06_next_step_resets_are_marked_as_no_data():
    environments = counters(AutoresetMode.NEXT_STEP, {"lengths": (3,), "label": False})
    observed = [environments.reset()[0, 0]]
    valid = []
    for _ in range(6):
        step = environments.step(np.zeros(1, int))
        observed.append(float(step.observations[0, 0]))
        valid.append(bool(step.valid[0]))
    assert observed[:6] == [0, 1, 2, 3, 0, 1]
    assert valid == [True, True, True, False, True, True]
    assert environments.episodes.tolist() == [2]


def test_T07_same_step_hands_over_the_final_observation_of_the_ended_environment_only():
    environments = counters(
        AutoresetMode.SAME_STEP,
        {"lengths": (3,), "ends": ("truncated",), "label": False},
        {"lengths": (2,), "ends": ("truncated",), "label": False},
    )
    environments.reset()
    environments.step(np.zeros(2, int))
    step = environments.step(np.zeros(2, int))
    np.testing.assert_array_equal(step.observations, [[2.0], [0.0]])
    np.testing.assert_array_equal(step.truncated, [False, True])
    np.testing.assert_array_equal(step.final_observations, [[2.0]])


@pytest.mark.parametrize("mode", MODES)
def test_T02_termination_wins_where_an_environment_reports_both(mode):
    environments = counters(mode, {"lengths": (2,), "ends": ("both",)})
    environments.reset()
    environments.step(np.zeros(1, int))
    step = environments.step(np.zeros(1, int))
    assert step.terminated.tolist() == [True]
    assert step.truncated.tolist() == [False]
    assert len(step.final_observations) == 0


def test_T02_a_time_limit_on_the_step_that_terminates_stays_a_termination():
    maker = lambda: gymnasium.wrappers.TimeLimit(Counter(lengths=(3,)), 3)  # noqa: E731
    envs = SyncVectorEnv([maker], autoreset_mode=AutoresetMode.DISABLED)
    assert rows(VectorEnvironment(envs, no_seed), 3)[0][2] == (2.0, 1.0, True, False, None)


class _Unlabeled(SyncVectorEnv):
    def __init__(self):
        super().__init__([Counter])
        self.metadata = {}


def test_T08_a_vector_environment_that_does_not_say_how_it_resets_is_refused():
    with pytest.raises(ConfigError, match=r"_Unlabeled.metadata\['autoreset_mode'\] is None"):
        VectorEnvironment(_Unlabeled(), no_seed)


def test_T08_an_unknown_autoreset_mode_is_refused():
    envs = _Unlabeled()
    envs.metadata = {"autoreset_mode": "sometimes"}
    with pytest.raises(ConfigError, match="sometimes"):
        VectorEnvironment(envs, no_seed)


@pytest.mark.parametrize("reuse", [False, True])
def test_T10_the_first_observation_is_no_alias_of_the_buffer(reuse):
    environments = counters(AutoresetMode.DISABLED, {"lengths": (9,), "reuse": reuse}, copy=False)
    first = environments.reset()
    environments.step(np.zeros(1, int))
    np.testing.assert_array_equal(first, [[0.0]])


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
def test_T10_final_observations_survive_the_reset_of_an_environment_that_reuses_its_array(mode):
    options = {"lengths": (2,), "ends": ("truncated",), "reuse": True}
    environments = counters(mode, options, copy=False)
    [found] = rows(environments, 8)
    assert found == expected_rows(len(found), (2,), ("truncated",))


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("actions", [2, "box"])
def test_processes_give_what_sync_gives_bit_for_bit(num_envs, actions):
    def action(n, t):
        if actions == 2:
            return np.full(n, t % 2)
        return np.arange(2 * n, dtype=np.float32).reshape(n, 2) / (2 * n) - 0.1 * t

    found = []
    for vectorization in ("sync", "parallel", "async"):
        options = {"length": 3, "actions": actions}
        environment = Environment("toys:Noisy-v0", num_envs, vectorization, options)
        environments = environment.make(num_envs, lambda i, e: 10 * i + e)
        try:
            arrays = [environments.reset()]
            for t in range(10):
                step = environments.step(action(num_envs, t))
                assert step.valid is None
                arrays += [
                    np.array(part)
                    for part in (
                        step.observations,
                        step.rewards,
                        step.terminated,
                        step.truncated,
                        step.final_observations,
                    )
                ]
            found.append(arrays)
        finally:
            environments.close()
    for sync, *others in zip(*found, strict=True):
        for other in others:
            assert sync.dtype == other.dtype
            np.testing.assert_array_equal(sync, other)


class Keeping(gymnasium.Wrapper):
    """The reward is how far the action is from the one before, which is kept as it came."""

    kept = 0.0

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        reward = float(np.abs(action - self.kept).sum())
        self.kept = action
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("vectorization", ["sync", "parallel", "async"])
def test_an_environment_may_keep_the_action_it_was_given(vectorization):
    environment = Environment(
        "toys:Noisy-v0", 4, vectorization, {"actions": "box"}, wrappers=[Keeping]
    )
    environments = environment.make(4, lambda i, e: i)
    try:
        environments.reset()
        # Two components each: 0, then 1, 2 and 0 further on.
        rewards = [
            environments.step(np.full((4, 2), action, np.float32)).rewards.tolist()
            for action in (0.0, 1.0, -1.0, -1.0)
        ]
        assert rewards == [[0.0] * 4, [2.0] * 4, [4.0] * 4, [0.0] * 4]
    finally:
        environments.close()


def test_every_episode_starts_from_its_own_seed():
    seeds = []

    class Seeded(Counter):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    makers = [lambda: Seeded(lengths=(2,)), lambda: Seeded(lengths=(3,))]
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
    environments = VectorEnvironment(envs, lambda i, e: 1000 * i + e)
    environments.reset()
    for _ in range(6):
        environments.step(np.zeros(2, int))
    assert seeds == [0, 1000, 1, 1001, 2, 3, 1002]
    assert environments.episodes.tolist() == [4, 3]


def test_a_finished_environment_alone_is_reset():
    environments = counters(AutoresetMode.DISABLED, {"lengths": (2,)}, {"lengths": (5,)})
    environments.reset()
    environments.step(np.zeros(2, int))
    step = environments.step(np.zeros(2, int))
    np.testing.assert_array_equal(step.observations, [[100.0], [2.0]])


def test_a_vector_entry_point_is_used_as_it_is():
    environments = Environment("CartPole-v1", 3, "vector_entry_point").make(3, no_seed)
    assert not isinstance(environments.envs.unwrapped, SyncVectorEnv | AsyncVectorEnv)
    observations = environments.reset()
    assert observations.shape == (3, 4)
    steps = [environments.step(np.zeros(3, int)) for _ in range(60)]
    resets = sum(int((~step.valid).sum()) for step in steps if step.valid is not None)
    ends = sum(int((step.terminated | step.truncated).sum()) for step in steps[:-1])
    assert ends == resets > 0
    environments.close()
