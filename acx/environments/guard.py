"""Faulty environments are named: which one, at which step of which episode, and what it did."""

import multiprocessing
import multiprocessing.connection
import numbers
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from acx.errors import RunError


class Guard(gymnasium.Wrapper):
    """Checks what a single environment returns, at a fraction of a microsecond a step.

    A value that isn't finite is found later, in the whole rollout at once.
    """

    def __init__(self, env: gymnasium.Env, index: int) -> None:
        super().__init__(env)
        self._index = index
        self._steps = 0
        self._seed: int | None = None
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        self._shape = space.shape
        self._dtype = space.dtype

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset, and check the observation."""
        self._steps, self._seed = 0, seed
        try:
            result = self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            raise self._fault(f"raised {type(error).__name__}: {error}", "reset") from error
        if type(result) is not tuple or len(result) != 2:
            raise self._fault(f"returned {_brief(result)}, not (observation, info)", "reset")
        self._check_observation(result[0], "reset")
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and check what comes back."""
        self._steps += 1
        try:
            result = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise self._fault(f"raised {type(error).__name__}: {error}") from error
        if type(result) is not tuple or len(result) != 5:
            raise self._fault(
                f"returned {_brief(result)}, not (observation, reward, terminated, truncated, info)"
            )
        observation, reward, terminated, truncated, _ = result
        if type(reward) is not float and not _is_number(reward):
            raise self._fault(f"returned the reward {_brief(reward)}: it must be one number")
        if type(terminated) is not bool or type(truncated) is not bool:
            for name, flag in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(flag, bool | np.bool_):
                    raise self._fault(f"returned {name} = {_brief(flag)}: it must be a bool")
        self._check_observation(observation)
        return result

    def _check_observation(self, observation: Any, call: str = "step") -> None:
        if type(observation) is not np.ndarray:
            raise self._fault(f"returned the observation {_brief(observation)}: not an array", call)
        if observation.shape != self._shape:
            raise self._fault(
                f"returned an observation of shape {observation.shape}; "
                f"its space says {self._shape}",
                call,
            )
        if observation.dtype != self._dtype and not np.can_cast(observation.dtype, self._dtype):
            raise self._fault(
                f"returned an observation of dtype {observation.dtype}; "
                f"its space says {self._dtype}",
                call,
            )

    def _fault(self, what: str, call: str = "step") -> RunError:
        seed = "" if self._seed is None else f" of the episode with seed {self._seed}"
        where = f"step {self._steps}{seed}" if call == "step" else f"reset(seed={self._seed})"
        return RunError(f"environment {self._index}, {where}: {what}")


def _is_number(reward: Any) -> bool:
    return isinstance(reward, numbers.Real | np.number | np.bool_) or (
        isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "fiub"
    )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# What Gymnasium's worker processes raise in the parent when they die or hang, naming nothing.
WORKER_FAILURES = (EOFError, BrokenPipeError, ConnectionError, multiprocessing.TimeoutError)


def attributed(envs: gymnasium.vector.VectorEnv, error: Exception) -> RunError:
    """The failure of a worker process with the number of its environment."""
    if isinstance(error, multiprocessing.TimeoutError):
        pipes = getattr(envs, "parent_pipes", [])
        hung = [i for i, pipe in enumerate(pipes) if not pipe.closed and not pipe.poll(0)]
        return RunError(f"environment {_list(hung)} did not answer in time")
    processes = getattr(envs, "processes", [])
    # A dying process closes its pipes a moment before it is dead.
    ended = multiprocessing.connection.wait([p.sentinel for p in processes], timeout=1)
    dead = [i for i, process in enumerate(processes) if process.sentinel in ended]
    for i in dead:
        processes[i].join(timeout=1)
    codes = ", ".join(str(processes[i].exitcode) for i in dead)
    return RunError(
        f"the process of environment {_list(dead)} died (exit code {codes or 'unknown'})"
    )


def _list(indices: list[int]) -> str:
    return ", ".join(map(str, indices)) or "(unknown)"
