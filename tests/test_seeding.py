import itertools

import numpy as np
import toys  # noqa: F401  (registers the toy environments)

from acx.environments.factory import Environment
from acx.seeding import Stream, episode_seed, generator

EPISODE_STREAMS = [
    Stream.TRAINING_EPISODES,
    Stream.EVALUATION_EPISODES,
    Stream.FINAL_EVALUATION_EPISODES,
]


def test_T63_runs_environments_episodes_and_evaluation_never_share_a_seed():
    keys = itertools.product((0, 1, 2), EPISODE_STREAMS, range(8), range(20))
    seeds = [episode_seed(*key) for key in keys]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_T63_seeds_are_a_function_of_their_place():
    assert episode_seed(3, Stream.TRAINING_EPISODES, 1, 2) == episode_seed(
        3, Stream.TRAINING_EPISODES, 1, 2
    )


def test_streams_are_independent_of_each_other_and_of_the_seed():
    first = {
        (seed, stream): tuple(generator(seed, stream).integers(2**32, size=8))
        for seed in (0, 1, 2)
        for stream in Stream
    }
    numbers = [number for drawn in first.values() for number in drawn]
    assert len(set(numbers)) == len(numbers)
    again = tuple(generator(1, Stream.ACTIONS).integers(2**32, size=8))
    assert again == first[1, Stream.ACTIONS]


def rewards(seed, steps=100, num_envs=4):
    environment = Environment("toys:Noisy-v0", num_envs)
    envs = environment.make(
        num_envs, lambda i, e: episode_seed(seed, Stream.TRAINING_EPISODES, i, e)
    )
    envs.reset()
    found = np.array([envs.step(np.zeros(num_envs, int)).rewards.copy() for _ in range(steps)])
    envs.close()
    return found


def test_T63_the_first_hundred_rewards_repeat_and_all_environments_differ():
    first = rewards(0)
    np.testing.assert_array_equal(first, rewards(0))
    columns = [tuple(column) for column in (*first.T, *rewards(1).T)]
    values = [value for column in columns for value in column]
    assert len(set(values)) == len(values)
