"""Faulty environments are named: which one, at which step of which episode, and what it did."""

import multiprocessing
import multiprocessing.connection
import numbers
from collections.abc import Iterable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

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


class VectorGuard(gymnasium.vector.VectorWrapper):
    """Checks what a vector environment returns, in about a microsecond a step.

    The vector environments of single ones need none: their parts are guarded.
    """

    def __init__(self, envs: gymnasium.vector.VectorEnv) -> None:
        super().__init__(envs)
        self._name = type(envs.unwrapped).__name__
        self._steps = 0
        space = envs.single_observation_space
        assert space.shape is not None
        assert space.dtype is not None
        self._rows = (envs.num_envs,)
        self._shape = (envs.num_envs, *space.shape)
        self._dtype = space.dtype
        self._hands_over = envs.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Reset, and check the observations."""
        self._steps = 0
        result = self._call("reset", seed=seed, options=options)
        if type(result) is not tuple or len(result) != 2:
            raise self._fault(f"returned {_brief(result)}, not (observations, infos)", "reset")
        self._check_observations(result[0], "reset")
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and check what comes back."""
        self._steps += 1
        result = self._call("step", actions)
        if type(result) is not tuple or len(result) != 5:
            raise self._fault(
                f"returned {_brief(result)}, "
                "not (observations, rewards, terminated, truncated, infos)"
            )
        observations, rewards, terminated, truncated, infos = result
        self._check_observations(observations)
        self._check_rows("rewards", rewards, "fiub", "numbers")
        self._check_rows("terminated", terminated, "b", "bools")
        self._check_rows("truncated", truncated, "b", "bools")
        if self._hands_over and truncated.any():
            self._check_final(infos, truncated)
        return result

    def _call(self, call: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self.env, call)(*arguments, **options)
        except WORKER_FAILURES:
            raise
        except (Exception, SystemExit) as error:
            raise self._fault(f"raised {type(error).__name__}: {error}", call) from error

    def _check_observations(self, observations: Any, call: str = "step") -> None:
        if not isinstance(observations, np.ndarray):
            raise self._fault(
                f"returned the observations {_brief(observations)}: not an array", call
            )
        if observations.shape != self._shape:
            raise self._fault(
                f"returned observations of shape {observations.shape}, not {self._shape}", call
            )
        if observations.dtype != self._dtype and not np.can_cast(observations.dtype, self._dtype):
            raise self._fault(
                f"returned observations of dtype {observations.dtype}; "
                f"their space says {self._dtype}",
                call,
            )

    def _check_rows(self, name: str, values: Any, kinds: str, what: str) -> None:
        """Refuse what isn't an array [N] of a dtype of one of `kinds`."""
        if not isinstance(values, np.ndarray):
            raise self._fault(f"returned {name} = {_brief(values)}: not an array")
        if values.shape != self._rows:
            raise self._fault(f"returned {name} of shape {values.shape}, not {self._rows}")
        if values.dtype.kind not in kinds:
            raise self._fault(f"returned {name} of dtype {values.dtype}: they must be {what}")

    def _check_final(self, infos: Any, truncated: np.ndarray) -> None:
        """Refuse a SAME_STEP reset that doesn't hand over the last observations."""
        try:
            for i in np.flatnonzero(truncated):
                shape = np.shape(infos["final_obs"][i])
                if shape != self._shape[1:]:
                    raise self._fault(
                        f"returned infos['final_obs'][{i}] of shape {shape}, not {self._shape[1:]}"
                    )
        except (KeyError, IndexError, TypeError):
            raise self._fault(
                "truncated an episode without its last observation in infos['final_obs'], "
                "which SAME_STEP autoreset asks for"
            ) from None

    def _fault(self, what: str, call: str = "step") -> RunError:
        where = f"step {self._steps} since its reset" if call == "step" else "reset"
        return RunError(f"{self._name}, {where}: {what}")


def _is_number(reward: Any) -> bool:
    return isinstance(reward, numbers.Real | np.number | np.bool_) or (
        isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "fiub"
    )


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# What Gymnasium's worker processes raise in the parent when they die or hang, naming nothing.
WORKER_FAILURES = (EOFError, BrokenPipeError, ConnectionError, multiprocessing.TimeoutError)


def attributed(envs: gymnasium.vector.VectorEnv, error: Exception) -> RunError:
    """The failure of a worker process with the number of its environment."""
    if isinstance(error, multiprocessing.TimeoutError):
        pipes = getattr(envs, "parent_pipes", [])
        hung = [i for i, pipe in enumerate(pipes) if not pipe.closed and not pipe.poll(0)]
        return RunError(f"environment {listed(hung)} did not answer in time")
    processes = getattr(envs, "processes", [])
    # A dying process closes its pipes a moment before it is dead.
    ended = multiprocessing.connection.wait([p.sentinel for p in processes], timeout=1)
    dead = [i for i, process in enumerate(processes) if process.sentinel in ended]
    for i in dead:
        processes[i].join(timeout=1)
    codes = ", ".join(str(processes[i].exitcode) for i in dead)
    return RunError(
        f"the process of environment {listed(dead)} died (exit code {codes or 'unknown'})"
    )


def listed(indices: Iterable[int]) -> str:
    """As messages name them."""
    return ", ".join(map(str, indices)) or "(unknown)"
