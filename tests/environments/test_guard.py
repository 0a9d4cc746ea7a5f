"""Vector environments that acx didn't put together: what they return is checked and named."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from toys import Counter

from acx.environments.factory import Environment
from acx.errors import ConfigError, RunError

FLOATS, BOOLS = np.ones(2, np.float32), np.zeros(2, bool)
HEALTHY = (np.zeros((2, 1), np.float32), FLOATS, BOOLS, BOOLS, {})


def returning(**parts):
    """What a healthy step returns, with other `parts`."""
    names = ("observations", "rewards", "terminated", "truncated", "infos")
    return tuple(parts.get(name, value) for name, value in zip(names, HEALTHY, strict=True))


class Native(gymnasium.vector.VectorEnv):
    """Two environments in one class; step 2 returns `result`, or raises it."""

    def __init__(
        self, num_envs=1, result=HEALTHY, start=HEALTHY[0], mode=AutoresetMode.NEXT_STEP, space=None
    ):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = space or Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._result, self._start = result, start

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self._start if isinstance(self._start, tuple) else (self._start, {})

    def step(self, actions):
        self._steps += 1
        if self._steps == 1:
            return HEALTHY
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


gymnasium.register(
    "Native-v0",
    entry_point=lambda **options: Counter(),
    vector_entry_point=Native,
    order_enforce=False,
)


def stepped(**options):
    environments = Environment("Native-v0", 2, "vector_entry_point", options).make(
        2, lambda i, e: 0
    )
    environments.reset()
    for _ in range(2):
        step = environments.step(np.zeros(2, int))
    return step


def assert_named(place, named, **options):
    """A vector environment with these options fails in one line that names the place and this."""
    with pytest.raises(RunError) as caught:
        stepped(**options)
    message = str(caught.value)
    assert message.startswith(place)
    assert named in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (None, "returned None, not (observations, rewards, terminated, truncated, infos)"),
        (HEALTHY[:4], "not (observations, rewards, terminated, truncated, infos)"),
        (returning(observations=None), "returned the observations None: not an array"),
        (returning(observations=[[0.0], [0.0]]), "observations [[0.0], [0.0]]: not an array"),
        (returning(observations=np.zeros(2, np.float32)), "observations of shape (2,), not (2, 1)"),
        (returning(observations=np.zeros((3, 1))), "observations of shape (3, 1), not (2, 1)"),
        (returning(observations=np.zeros((2, 1))), "dtype float64; their space says float32"),
        (returning(observations=np.full((2, 1), None)), "dtype object; their space says float32"),
        (returning(rewards=None), "returned rewards = None: not an array"),
        (returning(rewards=[1.0, 1.0]), "returned rewards = [1.0, 1.0]: not an array"),
        (returning(rewards=np.float32(1)), "returned rewards = np.float32(1.0): not an array"),
        (returning(rewards=np.ones((2, 1))), "rewards of shape (2, 1), not (2,)"),
        (returning(rewards=np.array([1.0, None])), "rewards of dtype object: they must be numbers"),
        (returning(rewards=np.array([1j, 1j])), "dtype complex128: they must be numbers"),
        (returning(terminated=None), "returned terminated = None: not an array"),
        (returning(terminated=False), "returned terminated = False: not an array"),
        (returning(terminated=np.zeros(2)), "terminated of dtype float64: they must be bools"),
        (returning(truncated=np.zeros(3, bool)), "truncated of shape (3,), not (2,)"),
        (returning(truncated=np.zeros(2, int)), "truncated of dtype int64: they must be bools"),
        (ValueError("the toy broke"), "raised ValueError: the toy broke"),
    ],
)
def test_T38_what_a_vector_environment_returned_is_named(result, named):
    assert_named("Native, step 2 since its reset: ", named, result=result)


@pytest.mark.parametrize(
    ("start", "named"),
    [
        ((HEALTHY[0],), ", not (observations, infos)"),
        (None, "returned the observations None: not an array"),
        (np.zeros((2, 2), np.float32), "observations of shape (2, 2), not (2, 1)"),
    ],
)
def test_T38_what_a_reset_returned_is_named(start, named):
    assert_named("Native, reset: ", named, start=start)


@pytest.mark.parametrize(
    ("infos", "named"),
    [
        ({}, "truncated an episode without its last observation in infos['final_obs']"),
        (None, "without its last observation"),
        ({"final_obs": np.zeros((1, 1))}, "without its last observation"),
        ({"final_obs": [None, np.zeros(3)]}, "infos['final_obs'][1] of shape (3,), not (1,)"),
        ({"final_obs": [None, None]}, "infos['final_obs'][1] of shape (), not (1,)"),
    ],
)
def test_T07_a_same_step_reset_must_hand_over_the_final_observation(infos, named):
    result = returning(truncated=np.array([False, True]), infos=infos)
    with pytest.raises(RunError) as caught:
        stepped(result=result, mode=AutoresetMode.SAME_STEP)
    assert named in str(caught.value)


def test_what_a_vector_environment_may_return():
    final = np.array([None, np.array([5.0], np.float32)], object)
    result = returning(
        observations=np.array([[3], [4]], np.float16),  # float32 holds them all
        rewards=np.array([1, 2]),
        truncated=np.array([False, True]),
        infos={"final_obs": final},
    )
    step = stepped(result=result, mode=AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(step.observations, [[3], [4]])
    np.testing.assert_array_equal(step.rewards, [1, 2])
    np.testing.assert_array_equal(step.final_observations, [[5]])


@pytest.mark.parametrize(
    "space", [Box(-1, 1, (2,), np.float32), Box(0, 255, (1,), np.uint8), Discrete(3)]
)
def test_a_vector_class_that_observes_something_else_than_the_single_one_is_refused(space):
    environment = Environment("Native-v0", 2, "vector_entry_point", {"space": space})
    with pytest.raises(ConfigError, match="observes") as caught:
        environment.check()
    assert str(space) in caught.value.message
