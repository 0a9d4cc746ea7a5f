import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import toys  # noqa: F401  (registers the toy environments)

from acx import config
from acx.environments.factory import Environment
from acx.errors import ConfigError


def test_T36_composite_observations_are_flattened_in_the_spaces_order():
    env = Environment("toys:Composite-v0").make_single()
    # Dict sorts its keys: "a", of which 6 of {5, 6, 7} is the second, then "b".
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(observation, [0, 1, 0, 7, 8])
    assert env.observation_space.shape == (5,)


def test_T36_discrete_observations_are_one_hot_whatever_their_start():
    env = Environment("toys:Composite-v0", env_options={"observes": "discrete"}).make_single()
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(observation, [0, 0, 1])
    env = Environment("FrozenLake-v1").make_single()
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(observation, np.eye(16)[0])


@pytest.mark.parametrize("observes", ["dict", "discrete"])
def test_T36_flattened_observations_reach_the_vector_environment(observes):
    environment = Environment("toys:Composite-v0", env_options={"observes": observes})
    space, _ = environment.check()
    for vectorization in ("sync", "parallel", "async"):
        environment.vectorization = vectorization
        environments = environment.make(2, lambda i, e: 0)
        assert environments.reset().shape == (2, *space.shape)
        environments.close()


@pytest.mark.parametrize("vectorization", ["sync", "parallel", "async"])
def test_T59_options_and_wrapper_settings_reach_every_worker(vectorization):
    config.load(
        [],
        [
            "Environment.env_id = 'toys:Counter-v0'",
            f"Environment.vectorization = '{vectorization}'",
            "Environment.env_options = {'lengths': (9,), 'reward': 0.25}",
            "Environment.wrappers = [@gymnasium.wrappers.TimeLimit]",
            "gymnasium.wrappers.TimeLimit.max_episode_steps = 2",
        ],
    )
    environments = Environment().make(2, lambda i, e: 0)
    try:
        environments.reset()
        first, second = (environments.step(np.zeros(2, int)) for _ in range(2))
        assert first.rewards.tolist() == [0.25, 0.25]
        assert first.truncated.tolist() == [False, False]
        assert second.truncated.tolist() == [True, True]
    finally:
        environments.close()


def test_wrappers_are_applied_in_order():
    reward = lambda scale: lambda env: gymnasium.wrappers.TransformReward(env, scale)  # noqa: E731
    wrappers = [reward(lambda r: r + 1), reward(lambda r: 10 * r)]
    env = Environment("toys:Counter-v0", wrappers=wrappers).make_single()
    env.reset(seed=0)
    assert env.step(0)[1] == 20.0


def test_wrappers_do_not_go_with_an_own_vector_class():
    with pytest.raises(ConfigError, match="vector_entry_point"):
        Environment("CartPole-v1", 1, "vector_entry_point", wrappers=[gymnasium.wrappers.TimeLimit])


def test_check_returns_the_spaces_of_the_wrapped_environment():
    space, actions = Environment("toys:Noisy-v0", env_options={"actions": "box"}).check()
    assert space.shape == (3,)
    np.testing.assert_array_equal(actions.low, [-2, -2])


def test_only_what_goes_wrong_in_a_step_is_heard_of_mujoco(tmp_path):
    script = """
from acx.environments.factory import Environment
env = Environment("HalfCheetah-v5").make_single()
env.reset(seed=0)
print(list(__import__("pathlib").Path().iterdir()))
env.unwrapped.data.qpos[:] = 1e20
env.unwrapped.do_simulation(env.action_space.sample(), 1)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "deprecated" not in done.stderr
    assert "QPOS" in done.stderr
