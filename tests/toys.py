"""Toy environments whose every observation, reward and episode end is known in advance.

Importing the module registers them: `toys:Counter-v0` works wherever tests/ is on the path.
"""

import os
import signal
import time
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv


def unbounded(*shape):
    return Box(-np.inf, np.inf, shape, np.float32)


class Counter(gymnasium.Env):
    """Observes [steps taken + 100 · episodes before]; rewards each step with `reward`.

    Args:
      lengths: of the first, second, … episode; starts over after the last.
      ends: 'terminated', 'truncated' or 'both', for each episode in the same way.
      reward: of a step; 'observation' rewards with the observation acted on.
      reuse: return the same array object from every reset and step.
      actions: the number of actions, or the action space.
    """

    def __init__(
        self, lengths=(3,), ends=("terminated",), reward=1.0, reuse=False, actions=2, label=True
    ):
        self.observation_space = unbounded(1)
        self.action_space = Discrete(actions) if isinstance(actions, int) else actions
        self._lengths, self._ends, self._reward = lengths, ends, reward
        self._reuse, self._label = reuse, label
        self._episode = -1
        self._array = np.zeros(1, np.float32)
        self.received = []

    def _observe(self):
        value = self._steps + 100.0 * self._episode * self._label
        if not self._reuse:
            return np.array([value], np.float32)
        self._array[0] = value
        return self._array

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode += 1
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        self.received.append(action)
        before = float(self._observe()[0])
        self._steps += 1
        over = self._steps >= self._lengths[self._episode % len(self._lengths)]
        end = self._ends[self._episode % len(self._ends)]
        reward = before if self._reward == "observation" else self._reward
        terminated = over and end in ("terminated", "both")
        truncated = over and end in ("truncated", "both")
        return self._observe(), reward, terminated, truncated, {}


class Noisy(gymnasium.Env):
    """Standard normal observations; the reward is the first one less the squared first action.

    Every reset's seed is kept in `Noisy.seeds`, in this process.
    """

    seeds: ClassVar[list] = []

    def __init__(self, length=7, size=3, actions=2, offset=0.0, truncates=True):
        self.observation_space = unbounded(size)
        self.action_space = {
            "box": Box(-2.0, 3.0, (2,), np.float32),
            "free": Box(-np.inf, np.inf, (2,), np.float32),
        }.get(actions) or Discrete(actions)
        self._length, self._offset, self._truncates = length, offset, truncates

    def _observe(self):
        normal = self.np_random.standard_normal(self.observation_space.shape)
        return (normal + self._offset).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Noisy.seeds.append(seed)
        self._steps = 0
        self._last = self._observe()
        return self._last, {}

    def step(self, action):
        reward = float(self._last[0] - np.ravel(action)[0] ** 2)
        self._steps += 1
        over = self._steps >= self._length
        self._last = self._observe()
        return self._last, reward, over and not self._truncates, over and self._truncates, {}


class Lottery(gymnasium.Env):
    """An episode's length is 1 + its seed modulo 30, the reward of a step is 1.

    Every reset's seed is kept in `Lottery.seeds`, in this process.
    """

    seeds: ClassVar[list] = []

    def __init__(self):
        self.observation_space = unbounded(1)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Lottery.seeds.append(seed)
        self._left = 1 + seed % 30
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._left -= 1
        return np.zeros(1, np.float32), 1.0, self._left == 0, False, {}


class Chasing(gymnasium.Env):
    """One step an episode: the reward is −(a − target)² for the first action a of a Box."""

    def __init__(self, target=0.3, low=-1.0, high=1.0):
        self.observation_space = unbounded(1)
        self.action_space = Box(low, high, (1,), np.float32)
        self._target = target

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = -float((action[0] - self._target) ** 2)
        return np.ones(1, np.float32), reward, True, False, {}


FAULTS = {
    "reward None": lambda o, r: (o, None, False, False, {}),
    "reward nan": lambda o, r: (o, float("nan"), False, False, {}),
    "reward inf": lambda o, r: (o, float("inf"), False, False, {}),
    "reward string": lambda o, r: (o, "3", False, False, {}),
    "reward array": lambda o, r: (o, np.array([1.5]), False, False, {}),
    "reward complex": lambda o, r: (o, 1j, False, False, {}),
    "terminated None": lambda o, r: (o, r, None, False, {}),
    "truncated string": lambda o, r: (o, r, False, "no", {}),
    "observation None": lambda o, r: (None, r, False, False, {}),
    "observation list": lambda o, r: (o.tolist(), r, False, False, {}),
    "observation nan": lambda o, r: (o * np.float32(np.nan), r, False, False, {}),
    "observation inf": lambda o, r: (o * np.float32(np.inf), r, False, False, {}),
    "observation shape": lambda o, r: (np.zeros(5, np.float32), r, False, False, {}),
    "observation dtype": lambda o, r: (o.astype(np.complex64), r, False, False, {}),
    "four values": lambda o, r: (o, r, False, {}),
    "nothing": lambda o, r: None,
}


class Faulty(gymnasium.Env):
    """Misbehaves in the way named by `fault`, from step `at` of each episode on.

    Args:
      fault: a key of FAULTS, or 'raises', 'exits', 'hangs', 'killed' or 'interrupted'.
      at: the step, from 1.
      seed: misbehave only in the episode that starts from this seed; None is in all.
    """

    def __init__(self, fault, at=2, seed=None):
        self.observation_space = unbounded(1)
        self.action_space = Discrete(2)
        self._fault, self._at, self._faulty_seed = fault, at, seed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        self._healthy = self._faulty_seed is not None and seed != self._faulty_seed
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        observation = np.array([self._steps], np.float32)
        if self._healthy or self._steps < self._at:
            return observation, 1.0, False, self._steps >= 1000, {}
        if self._fault == "raises":
            raise ValueError("the toy broke")
        if self._fault == "exits":
            os._exit(3)
        if self._fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "hangs":
            time.sleep(60)
        if self._fault == "interrupted":
            raise KeyboardInterrupt
        return FAULTS[self._fault](observation, 1.0)


class Composite(gymnasium.Env):
    """Observes a space given by name; for what acx supports and what it refuses."""

    def __init__(self, observes="dict", acts="discrete"):
        spaces = gymnasium.spaces
        self.observation_space = {
            "dict": spaces.Dict({"b": unbounded(2), "a": Discrete(3, start=5)}),
            "discrete": Discrete(3, start=5),
            "graph": spaces.Graph(unbounded(1), None),
            "box": unbounded(1),
        }[observes]
        self.action_space = {
            "discrete": Discrete(2),
            "multidiscrete": spaces.MultiDiscrete([[1, 2]]),
            "multibinary": spaces.MultiBinary(3),
            "dict": spaces.Dict({"x": Discrete(2)}),
        }[acts]

        self._observation = {
            "dict": {"b": np.array([7.0, 8.0], np.float32), "a": np.int64(6)},
            "discrete": np.int64(7),
            "box": np.zeros(1, np.float32),
        }.get(observes)

    def _observe(self):
        return self._observation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        return self._observe(), 1.0, False, True, {}


def _counters(mode):
    def make(num_envs=1, **options):
        makers = [lambda: Counter(**options)] * num_envs
        return SyncVectorEnv(makers, copy=False, autoreset_mode=mode)

    return make


for _mode in AutoresetMode:
    gymnasium.register(
        f"Counter{_mode.value}-v0",
        entry_point=Counter,
        vector_entry_point=_counters(_mode),
        order_enforce=False,
    )

for _class in (Counter, Noisy, Lottery, Chasing, Faulty, Composite):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=_class, order_enforce=False)
