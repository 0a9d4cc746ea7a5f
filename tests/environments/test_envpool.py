"""EnvPool under the contract of test_vector.py, checked against Gymnasium's own dynamics."""

import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tiny
from gymnasium.vector import AutoresetMode

from acx.environments import envpool as adapter
from acx.environments.factory import Environment
from acx.environments.vector import VectorEnvironment
from acx.errors import ConfigError, RunError
from acx.policies import GaussianTanhHead


@pytest.fixture
def needs_envpool():
    pytest.importorskip("envpool")


def seeds(environment, episode):
    return 100 * environment + episode + 2**31  # beyond what EnvPool's int32 holds


def make(env_id="CartPole-v1", num_envs=3, seed=seeds, **options):
    return Environment(env_id, num_envs, "envpool", options).make(num_envs, seed)


def cartpole(observation):
    return observation.astype(np.float64)


def pendulum(observation):
    cosine, sine, velocity = observation.astype(np.float64)
    return np.array([np.arctan2(sine, cosine), velocity])


def expected(env, state, action):
    """What Gymnasium's environment does from `state`: observation, reward, terminated."""
    env.reset(seed=0)
    env.unwrapped.state = state
    observation, reward, terminated, _, _ = env.step(action)
    return observation, reward, terminated


@pytest.mark.usefixtures("needs_envpool")
@pytest.mark.parametrize(
    ("env_id", "limit", "state", "sampled"),
    [
        ("CartPole-v1", 12, cartpole, lambda rng: rng.integers(0, 2, 9)),
        ("Pendulum-v1", 5, pendulum, lambda rng: rng.uniform(-2, 2, (9, 1)).astype(np.float32)),
    ],
)
def test_T06_every_valid_row_is_a_step_of_the_underlying_task(env_id, limit, state, sampled):
    environments = make(env_id, 9, max_episode_steps=limit)
    env = gymnasium.make(env_id)
    rng = np.random.default_rng(0)
    observations = environments.reset()
    lengths, inserted = np.zeros(9, int), np.zeros(9, bool)
    ends = {"terminated": 0, "truncated": 0, "terminated at the limit": 0}
    for _ in range(100):
        actions = sampled(rng)
        step = environments.step(actions)
        np.testing.assert_array_equal(step.valid, ~inserted)
        finals = iter([] if step.final_observations is None else step.final_observations)
        for i in range(9):
            if inserted[i]:
                assert step.rewards[i] == 0
                assert not step.terminated[i]
                assert not step.truncated[i]
                lengths[i] = 0
                continue
            following, reward, terminated = expected(env, state(observations[i]), actions[i])
            lengths[i] += 1
            assert step.terminated[i] == terminated
            assert step.truncated[i] == (lengths[i] == limit and not terminated)
            assert step.rewards[i] == pytest.approx(reward, abs=1e-4)
            found = next(finals) if step.truncated[i] else step.observations[i]
            np.testing.assert_allclose(found, following, atol=1e-4)
            ends["terminated"] += terminated
            ends["truncated"] += bool(step.truncated[i])
            ends["terminated at the limit"] += terminated and lengths[i] == limit
        inserted = step.terminated | step.truncated
        observations = step.observations
    environments.close()
    assert ends["truncated"] > 5
    if env_id == "CartPole-v1":
        assert ends["terminated"] > 5
        assert ends["terminated at the limit"] > 0


def until_an_end(**options):
    """Push one cart to the left: the last step of the episode, and which it was."""
    environments = make(num_envs=1, **options)
    environments.reset()
    for count in range(1, 100):
        step = environments.step(np.zeros(1, int))
        if step.terminated[0] or step.truncated[0]:
            return count, step
    raise AssertionError("the pole never fell")


@pytest.mark.usefixtures("needs_envpool")
def test_T02_a_time_limit_on_the_step_that_terminates_stays_a_termination():
    fell, step = until_an_end()
    assert step.terminated[0]
    for limit, terminated in ((fell, True), (fell - 1, False), (fell + 1, True)):
        count, step = until_an_end(max_episode_steps=limit)
        assert count == min(fell, limit)
        assert (step.terminated[0], step.truncated[0]) == (terminated, not terminated)
        assert len(step.final_observations) == (not terminated)


@pytest.mark.usefixtures("needs_envpool")
@pytest.mark.parametrize("limit", [None, 9, 5])
def test_T02_an_environment_that_truncates_by_itself_is_truncated_and_reset(limit):
    # A drive of 5 seconds, at one action each; nobody is there to crash with.
    options = {"duration": 5, "policy_frequency": 1, "vehicles_count": 1}
    envs = adapter.EnvPoolVectorEnv("Highway-v0", 2, options, limit)
    environments = VectorEnvironment(envs, seeds)
    environments.reset()
    rows = [environments.step(np.full(2, 1)) for _ in range(13)]
    environments.close()
    ends, resets = [4, 10], [5, 11]  # rows, of both environments
    assert [t for t in range(13) if rows[t].truncated.all()] == ends
    assert [t for t in range(13) if not rows[t].valid.any()] == resets
    assert not any(row.terminated.any() for row in rows)
    assert all(len(rows[t].final_observations) == 2 for t in ends)


def played(steps=40, **options):
    environments = make(num_envs=16, max_episode_steps=15, **options)
    found = [environments.reset()]
    rng = np.random.default_rng(1)
    for _ in range(steps):
        step = environments.step(rng.integers(0, 2, 16))
        found += [step.observations.copy(), step.rewards.copy(), step.terminated, step.truncated]
    environments.close()
    return found


@pytest.mark.usefixtures("needs_envpool")
def test_T63_equal_seeds_give_equal_runs_whatever_the_number_of_threads(monkeypatch):
    first = played()
    for threads in (1, 2, 3):
        monkeypatch.setattr(adapter, "_threads", lambda num_envs, threads=threads: threads)
        for one, other in zip(first, played(), strict=True):
            np.testing.assert_array_equal(one, other)


def pinned():
    """The cores that a single thread of this process is bound to, one entry a thread."""
    bound = [os.sched_getaffinity(int(task.name)) for task in Path("/proc/self/task").iterdir()]
    return sorted(core for cores in bound if len(cores) == 1 for core in cores)


@pytest.mark.usefixtures("needs_envpool")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_that_fill_the_machine_get_a_core_each_and_fewer_are_left_free():
    count = os.cpu_count()
    if count == 1 or len(os.sched_getaffinity(0)) < count:
        pytest.skip("needs all of at least two cores")
    assert pinned() == []
    few = make(num_envs=4 * (count - 1))
    few.reset()
    assert pinned() == []
    full = make(num_envs=4 * count)
    full.reset()
    assert pinned() == list(range(count))
    full.close()
    few.close()


@pytest.mark.usefixtures("needs_envpool")
def test_T63_every_environment_and_every_reset_has_its_own_seed():
    environments = make(num_envs=3)
    starts = [tuple(row) for _ in range(3) for row in environments.reset()]
    # Environment i of a run must not be environment i - 1 of the run with the next seed.
    neighbor = make(num_envs=3, seed=lambda i, e: seeds(i, e) + 1)
    starts += [tuple(row) for row in neighbor.reset()[1:]]
    # Seeds that differ by an episode: the first reset of `neighbor` is the second of the other.
    assert len(set(starts)) == 9
    assert set(starts[9:]) == set(starts[4:6])


@pytest.mark.usefixtures("needs_envpool")
def test_the_vector_environment_has_single_and_batched_spaces():
    envs = make("HalfCheetah-v5", 2).envs.unwrapped
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.single_observation_space.shape == (17,)
    assert envs.observation_space.shape == (2, 17)
    assert envs.action_space.shape == (2, 6)
    observations, _ = envs.reset(seed=3)
    assert envs.observation_space.contains(observations)
    again, _ = envs.reset(seed=3)
    np.testing.assert_array_equal(observations, again)
    unseeded, _ = envs.reset()
    assert not np.array_equal(observations, unseeded)


@pytest.mark.usefixtures("needs_envpool")
@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), ()])
def test_actions_of_the_wrong_shape_are_refused_before_envpool_sees_them(shape):
    environments = make(num_envs=3)
    environments.reset()
    with pytest.raises(RunError, match=r"step 1 .*actions of shape \(.*\), not \(3,\)"):
        environments.step(np.zeros(shape, int))


@pytest.mark.usefixtures("needs_envpool")
def test_T06_training_counts_valid_rows_only():
    experiment = tiny.experiment(
        "Pendulum-v1",
        env_options={"max_episode_steps": 9},
        vectorization="envpool",
        rollout_length=32,
        iterations=2,
        head=GaussianTanhHead(),
    )
    recorder = tiny.train(experiment)
    # Every tenth row is a reset: of two times 32 rows 58 count.
    assert recorder.scalars("time/total_timesteps") == [58, 116]
    assert recorder.scalars("rollout/ep_len_mean") == [9, 9]
    [(_, result, _)] = recorder.evaluations
    assert result.lengths.tolist() == [9, 9]


@pytest.mark.usefixtures("needs_envpool")
def test_open_episodes_are_not_repeated_but_new_ones_started():
    experiment = tiny.experiment("CartPole-v1", vectorization="envpool", num_envs=2)
    experiment.build()
    first = tiny.collector(experiment)
    first.collect()
    resumed = tiny.collector(experiment)
    beginning = resumed.environments.episodes.copy()
    assert resumed.load_state(first.state()) is False
    assert resumed.env_steps == first.env_steps
    np.testing.assert_array_equal(resumed.environments.episodes, beginning + 1)
    for collector in (first, resumed):
        collector.environments.close()


@pytest.mark.usefixtures("needs_envpool")
@pytest.mark.parametrize(
    ("env_id", "options", "parameter", "fragments"),
    [
        ("toys:Counter-v0", {}, "env_id", ["EnvPool has no toys:Counter-v0"]),
        ("CartPoles-v1", {}, "env_id", ["EnvPool has no CartPoles-v1", " CartPole-v1"]),
        (
            "CartPole-v1",
            {"sutton_barto_reward": True},
            "env_options",
            ["EnvPool's CartPole-v1", "'sutton_barto_reward'", "max_episode_steps"],
        ),
        ("FrozenLake-v1", {}, "vectorization", ["observes Discrete(16)", "Box"]),
    ],
)
def test_what_envpool_does_not_have_is_refused(env_id, options, parameter, fragments):
    if env_id == "CartPoles-v1" and env_id not in gymnasium.registry:
        gymnasium.register(env_id, "gymnasium.envs.classic_control:CartPoleEnv")
    with pytest.raises(ConfigError) as caught:
        Environment(env_id, 2, "envpool", options).check()
    assert (caught.value.component, caught.value.parameter) == ("Environment", parameter)
    for fragment in fragments:
        assert fragment in caught.value.message
    assert "\n" not in caught.value.message


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ConfigError, match=r"pip install 'acx\[envpool\]'"):
        Environment("CartPole-v1", 2, "envpool").check()


def test_wrappers_do_not_go_with_envpool():
    with pytest.raises(ConfigError, match="'envpool'"):
        Environment("CartPole-v1", 1, "envpool", wrappers=[gymnasium.wrappers.TimeLimit])
