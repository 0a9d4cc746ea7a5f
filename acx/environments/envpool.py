"""EnvPool's environments as a Gymnasium vector environment."""

import contextlib
import difflib
import functools
import importlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from acx.environments.parallel import available_cores
from acx.errors import ConfigError

NO_LIMIT = 2**31 - 2  # steps; EnvPool counts in int32
YIELDS = 5  # two were enough on two cores, one made it worse
# Settings that are not the environment's.
OF_POOL = (
    *("num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset"),
    *("base_path", "seed", "env_seed", "gym_reset_return_info", "reward_threshold"),
)


class EnvPoolVectorEnv(gymnasium.vector.VectorEnv):
    """N environments that EnvPool steps in C++ threads, with NEXT_STEP autoreset.

    EnvPool calls every episode that ends in the step of its time limit truncated, also where it
    terminated. So its limit is set one step higher, where no episode arrives: it is this class that
    truncates, as Gymnasium's TimeLimit does, and has EnvPool reset those environments in the step
    after. Environments that truncate for reasons of their own are reset by EnvPool.

    Args:
      env_id: an id of EnvPool's.
      num_envs: N.
      options: what EnvPool's configuration of that id takes.
      time_limit: steps after which an episode is truncated; None: never.

    Raises:
      ConfigError: EnvPool is missing, or doesn't have the id or an option.
    """

    def __init__(
        self, env_id: str, num_envs: int, options: dict[str, Any], time_limit: int | None
    ) -> None:
        envpool = _envpool()
        known = envpool.list_all_envs()
        if env_id not in known:
            near = difflib.get_close_matches(env_id, known)
            meant = f"; the nearest are {', '.join(near)}" if near else ""
            raise ConfigError(f"EnvPool has no {env_id}{meant}", "Environment", "env_id")
        self._limit = NO_LIMIT if time_limit is None else time_limit
        threads = _threads(num_envs)
        settings = {
            **options,
            "num_envs": num_envs,
            "num_threads": threads,
            # Left to themselves, threads that fill the machine share a core for seconds at a time.
            "thread_affinity_offset": 0 if threads == os.cpu_count() else -1,
            "max_episode_steps": self._limit + 1,
        }
        with _quiet():
            taken = [n for n in envpool.make_spec(env_id).config._fields if n not in OF_POOL]
            for name in options:
                if name not in taken:
                    raise ConfigError(
                        f"EnvPool's {env_id} takes no option {name!r}, only {', '.join(taken)}",
                        "Environment",
                        "env_options",
                    )
            try:
                spec = envpool.make_spec(env_id, **settings)
                self.single_observation_space = spec.gymnasium_observation_space
                self.single_action_space = spec.gymnasium_action_space
            except Exception as error:
                text = " ".join(str(error).split())
                raise ConfigError(
                    f"EnvPool can't make {env_id}: {text}", "Environment", "env_options"
                ) from None
        names = [name.split(":")[0] for name in spec.state_array_spec]
        results = ("obs", "reward", "done", "trunc", "elapsed_step")
        self._columns = [names.index(name) for name in results]
        *_, action = spec.action_array_spec.values()
        self._action_dtype = action.dtype
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._make = functools.partial(envpool.make_gymnasium, env_id, **settings)
        self._pool: Any = None
        self._ids = np.arange(num_envs, dtype=np.int32)
        self._late: np.ndarray | None = None  # [N] bool, truncated in the last step; None: none

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Make all environments anew, for EnvPool takes seeds only then.

        Args:
          seed: of each environment, or of the first: the others' follow it. Later episodes go on
            with the random numbers of the first.
          options: not used.
        """
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        with _quiet():
            self._pool = self._make(seed=[each % 2**31 for each in seeds])
            observations, _ = self._pool.reset()
        self._late = None
        return observations, {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all, or reset those whose episode is over: one action each, [N, ...]."""
        if actions.shape != self.action_space.shape:  # EnvPool would end the process
            raise ValueError(f"actions of shape {actions.shape}, not {self.action_space.shape}")
        if self._late is None:
            observations, rewards, done, own, elapsed = self._step(actions, self._ids)
        else:
            observations, rewards, done, own, elapsed = self._reset_late(actions, self._late)
        late = elapsed >= self._limit
        self._late = late if late.any() else None
        return observations, rewards, done & ~own, own | late, {}

    def _step(self, actions: np.ndarray, ids: np.ndarray) -> list[np.ndarray]:
        """Step the environments `ids` [K] with `actions` [K, ...].

        These are the calls that EnvPool's own `step` makes. What it does besides, on the way to
        Gymnasium's results and infos, takes as long as the physics of a HalfCheetah.

        Returns:
          Observations [K, ...], rewards [K], and whose episode is over, who truncated it without
          being at the limit, and the steps so far, [K] each.
        """
        self._pool._send([ids, ids, actions.astype(self._action_dtype, order="C")])
        if hasattr(os, "sched_yield"):
            # EnvPool's threads first: waiting for them begins with a loop on one of their cores.
            for _ in range(YIELDS):
                os.sched_yield()
        columns = self._pool._recv()
        return [columns[i] for i in self._columns]

    def _reset_late(self, actions: np.ndarray, late: np.ndarray) -> list[np.ndarray]:
        """Reset those in `late` [N], step the others: what `_step` returns of all."""
        resets, others = self._ids[late], self._ids[~late]
        first, _ = self._pool.reset(resets)
        results = [
            np.empty((self.num_envs, *first.shape[1:]), first.dtype),
            np.zeros(self.num_envs, np.float32),
            np.zeros(self.num_envs, bool),
            np.zeros(self.num_envs, bool),
            np.zeros(self.num_envs, np.int32),
        ]
        results[0][resets] = first
        if len(others):
            for result, stepped in zip(results, self._step(actions[others], others), strict=True):
                result[others] = stepped
        return results

    def close_extras(self, **kwargs: Any) -> None:
        """End EnvPool's threads."""
        self._pool = None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warning that float32 holds a space's bounds less precisely."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")
        yield


def _envpool() -> Any:
    """The package; importing it takes a few seconds."""
    try:
        return importlib.import_module("envpool")
    except ModuleNotFoundError as error:
        missing = error.name or "envpool"
        what = f"EnvPool, which needs {missing}" if missing != "envpool" else "EnvPool"
        raise ConfigError(
            f"vectorization = 'envpool' needs {what}: pip install 'acx[envpool]'",
            "Environment",
            "vectorization",
        ) from None
    except ImportError as error:
        text = " ".join(str(error).split())
        raise ConfigError(
            f"EnvPool can't be loaded: {text}", "Environment", "vectorization"
        ) from None


def _threads(num_envs: int) -> int:
    """A thread for 4 environments, at most one a core: waking more takes longer than it saves."""
    return max(1, min(available_cores(), num_envs // 4))
