"""Independent random streams from one root seed (NumPy's SeedSequence)."""

import json
from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Who consumes randomness. The numbers are part of a run's identity: never reuse one."""

    WEIGHTS = 0
    ACTIONS = 1
    SHUFFLING = 2
    ENTROPY = 3
    TRAINING_EPISODES = 4
    EVALUATION_EPISODES = 5
    FINAL_EVALUATION_EPISODES = 6
    PLAYED_EPISODES = 7


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """The NumPy generator of one consumer; streams of one seed, and of two seeds, never meet."""
    return np.random.default_rng(np.random.SeedSequence((seed, int(stream))))


def episode_seed(seed: int, stream: Stream, environment: int, episode: int) -> int:
    """The seed with which environment number `environment` starts its `episode`-th episode."""
    sequence = np.random.SeedSequence((seed, int(stream), environment, episode))
    return int(sequence.generate_state(1)[0])


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """A generator's position, as text in an array."""
    return np.array(json.dumps(rng.bit_generator.state))


def load_generator_state(rng: np.random.Generator, state: np.ndarray) -> None:
    """Go on from `generator_state`."""
    rng.bit_generator.state = json.loads(str(state))
