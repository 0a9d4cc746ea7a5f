"""An environment that misbehaves on request, and what must be said of each way."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np


class OwnError(Exception):
    """An exception class that only the environment knows."""


def _raises(error: BaseException) -> Callable[[np.ndarray], Any]:
    def fault(observation: np.ndarray) -> Any:
        raise error

    return fault


def _ends_process(how: Callable[[], Any]) -> Callable[[np.ndarray], Any]:
    def fault(observation: np.ndarray) -> Any:
        how()

    return fault


# Name -> (what a step returns instead, what the message must hold).
IN_STEP: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "raises ValueError": (_raises(ValueError("the toy broke")), "raised ValueError: the toy broke"),
    "raises KeyError": (_raises(KeyError("x")), "raised KeyError"),
    "raises MemoryError": (_raises(MemoryError()), "raised MemoryError"),
    "raises RecursionError": (_raises(RecursionError("deep")), "raised RecursionError"),
    "raises an own class": (_raises(OwnError("mine")), "raised OwnError: mine"),
    "raises SystemExit": (_raises(SystemExit(0)), "raised SystemExit"),
    "raises EOFError": (_raises(EOFError("no data")), "raised EOFError"),
    "reward None": (lambda o: (o, None, False, False, {}), "reward None"),
    "reward text": (lambda o: (o, "3", False, False, {}), "reward '3'"),
    "reward array": (lambda o: (o, np.ones(1), False, False, {}), "reward array([1.])"),
    "reward list": (lambda o: (o, [1.0], False, False, {}), "reward [1.0]"),
    "reward complex": (lambda o: (o, 1j, False, False, {}), "reward 1j"),
    "reward dictionary": (lambda o: (o, {"r": 1.0}, False, False, {}), "reward {'r': 1.0}"),
    "terminated None": (lambda o: (o, 1.0, None, False, {}), "terminated = None"),
    "terminated 1": (lambda o: (o, 1.0, 1, False, {}), "terminated = 1"),
    "terminated array": (lambda o: (o, 1.0, np.array([True]), False, {}), "terminated = array"),
    "truncated None": (lambda o: (o, 1.0, False, None, {}), "truncated = None"),
    "truncated text": (lambda o: (o, 1.0, False, "no", {}), "truncated = 'no'"),
    "observation None": (lambda o: (None, 1.0, False, False, {}), "observation None"),
    "observation list": (lambda o: (o.tolist(), 1.0, False, False, {}), "observation [2.0, 2.0]"),
    "observation number": (lambda o: (2.0, 1.0, False, False, {}), "observation 2.0"),
    "observation dictionary": (lambda o: ({"x": o}, 1.0, False, False, {}), "observation {'x'"),
    "observation too long": (lambda o: (np.zeros(3, "f4"), 1.0, False, False, {}), "shape (3,)"),
    "observation scalar": (lambda o: (np.float32(2), 1.0, False, False, {}), "observation np.f"),
    "observation matrix": (lambda o: (o[None], 1.0, False, False, {}), "shape (1, 2)"),
    "observation complex": (lambda o: (o * 1j, 1.0, False, False, {}), "dtype complex64"),
    "observation of texts": (lambda o: (o.astype(str), 1.0, False, False, {}), "dtype <U"),
    "observation of objects": (lambda o: (o.astype(object), 1.0, False, False, {}), "dtype object"),
    "observation of doubles": (lambda o: (o * np.float64(1), 1.0, False, False, {}), "float64"),
    "four values": (lambda o: (o, 1.0, False, {}), "not (observation, reward"),
    "six values": (lambda o: (o, 1.0, False, False, {}, 0), "not (observation, reward"),
    "a list": (lambda o: [o, 1.0, False, False, {}], "not (observation, reward"),
    "nothing": (lambda o: None, "returned None"),
}

IN_RESET: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "raises ValueError": (_raises(ValueError("no reset")), "raised ValueError: no reset"),
    "nothing": (lambda o: None, "returned None"),
    "observation alone": (lambda o: o, "not (observation, info)"),
    "observation None": (lambda o: (None, {}), "observation None"),
    "observation too long": (lambda o: (np.zeros(3, np.float32), {}), "shape (3,)"),
    "observation of texts": (lambda o: (o.astype(str), {}), "dtype <U"),
}

# What only a process of its own survives.
IN_PROCESS: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "exits": (_ends_process(lambda: os._exit(3)), "died (exit code 3)"),
    "is killed": (
        _ends_process(lambda: os.kill(os.getpid(), signal.SIGKILL)),
        "died (exit code -9)",
    ),
    "crashes": (
        _ends_process(lambda: os.kill(os.getpid(), signal.SIGSEGV)),
        "died (exit code -11)",
    ),
    "hangs": (_ends_process(lambda: time.sleep(600)), "did not answer in time"),
}


class Misbehaving(gymnasium.Env):
    """Observes [steps, steps]; misbehaves in one episode, from its second step or in its reset.

    Args:
      fault: a key of IN_STEP or IN_PROCESS, or of IN_RESET with `call` 'reset'.
      episode_seed: the seed of the episode that misbehaves.
      call: 'step' or 'reset'.
    """

    def __init__(self, fault: str, episode_seed: int, call: str = "step") -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._fault = (IN_RESET if call == "reset" else IN_STEP | IN_PROCESS)[fault][0]
        self._episode_seed, self._call = episode_seed, call

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """A first observation, or the fault."""
        super().reset(seed=seed)
        self._steps, self._faulty = 0, seed == self._episode_seed
        observation = np.zeros(2, np.float32)
        if self._faulty and self._call == "reset":
            return self._fault(observation)
        return observation, {}

    def step(self, action: Any) -> Any:
        """A step, or the fault."""
        self._steps += 1
        observation = np.full(2, self._steps, np.float32)
        if self._faulty and self._call == "step" and self._steps >= 2:
            return self._fault(observation)
        return observation, 1.0, False, self._steps >= 100, {}


gymnasium.register("Misbehaving-v0", entry_point=f"{__name__}:Misbehaving", order_enforce=False)
