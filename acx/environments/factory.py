"""Makes environments from a configuration."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import gin
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from acx.config import Positive, PositiveInt, configurable
from acx.environments.envpool import EnvPoolVectorEnv
from acx.environments.guard import Guard, VectorGuard
from acx.environments.local import LocalVectorEnv
from acx.environments.parallel import ParallelVectorEnv, leave_ctrl_c_to_parent
from acx.environments.vector import EpisodeSeed, VectorEnvironment
from acx.errors import ConfigError, RunError

# These keep statistics that no checkpoint would hold, or reset behind the collector's back.
REFUSED_WRAPPERS = {
    "NormalizeObservation": "Agent.observation_normalizer = @ObservationNormalizer()",
    "NormalizeReward": "Agent.reward_normalizer = @RewardNormalizer()",
    "Autoreset": "nothing: acx resets every episode itself",
}

# Vector environments that aren't made of single ones.
READY_MADE = ("vector_entry_point", "envpool")

for _name in gymnasium.wrappers.__all__:
    try:
        _wrapper = getattr(gymnasium.wrappers, _name)
    except ImportError:  # wrappers for JAX, PyTorch and the like
        continue
    if isinstance(_wrapper, type) and issubclass(_wrapper, gymnasium.Wrapper):
        gin.external_configurable(_wrapper, module="gymnasium.wrappers")


class _StepTimeout(AsyncVectorEnv):
    """AsyncVectorEnv whose step waits for so long only."""

    step_timeout: float

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.step_async(actions)
        return self.step_wait(timeout=self.step_timeout)

    def _raise_if_errors(self, successes: Any) -> None:
        with warnings.catch_warnings():  # the traceback of the worker: the error itself says enough
            warnings.simplefilter("ignore")
            super()._raise_if_errors(successes)


def _in_worker(parent: int, maker: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    """Make an environment in its worker process, which leaves Ctrl-C to the parent."""
    if os.getpid() != parent:  # Gymnasium makes one in the parent too, to see its spaces
        leave_ctrl_c_to_parent()
    return maker()


@contextlib.contextmanager
def _quiet_model(env_id: str) -> Iterator[None]:
    """Leave out what MuJoCo finds outdated in Gymnasium's own model files.

    It says so once an environment, on stderr and in MUJOCO_LOG.TXT, and no user can mend it. What
    it warns of while an environment steps is shown.
    """
    spec = gymnasium.registry.get(env_id)
    with contextlib.ExitStack() as stack:
        if spec is not None and str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
            with contextlib.suppress(ImportError):  # making the environment says it better
                import mujoco

                stack.callback(mujoco.set_mju_user_warning, mujoco.get_mju_user_warning())
                mujoco.set_mju_user_warning(lambda message: None)
        yield


@configurable
class Environment:
    """A Gymnasium environment and how many of it run side by side.

    Args:
      env_id: the registered id, such as 'Pendulum-v1' ('module:Id' imports the module first).
      num_envs: environments stepped together in training.
      vectorization: 'sync' steps them one after another in this process (best where other
        runs need the other cores), 'parallel' in as many processes as there are cores, this one
        included, 'async' in a process each, 'vector_entry_point' uses the environment's own vector
        class, 'envpool' EnvPool's implementation of the id (`pip install 'acx[envpool]'`). The last
        two are for training; evaluation uses single environments always.
      env_options: keyword arguments of the environment.
      wrappers: Gymnasium wrapper classes, applied in order, such as
        `[@gymnasium.wrappers.RescaleObservation]`.
      step_timeout: seconds that a step may take in another process.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: PositiveInt = 8,
        vectorization: Literal[
            "sync", "parallel", "async", "vector_entry_point", "envpool"
        ] = "sync",
        env_options: dict[str, Any] | None = None,
        wrappers: Sequence[Callable[..., gymnasium.Env]] = (),
        step_timeout: Positive = 60.0,
    ) -> None:
        for wrapper in wrappers:
            name = getattr(wrapper, "__name__", repr(wrapper))
            if name in REFUSED_WRAPPERS:
                raise ConfigError(
                    f"Environment.wrappers has {name}; use instead {REFUSED_WRAPPERS[name]}",
                    parameter="wrappers",
                )
        if vectorization in READY_MADE and wrappers:
            raise ConfigError(
                "Environment.wrappers are for single environments: "
                f"they don't go with vectorization = '{vectorization}'",
                parameter="wrappers",
            )
        self.env_id = env_id
        self.num_envs = num_envs
        self.vectorization = vectorization
        self.env_options = dict(env_options or {})
        self.wrappers = tuple(wrappers)
        self.step_timeout = step_timeout

    def make_single(self, index: int = 0, render_mode: str | None = None) -> gymnasium.Env:
        """One environment as training sees it: wrapped, flattened where needed, guarded.

        Raises:
          ConfigError: it can't be made, or its observations can't be used.
        """
        options = self.env_options | ({"render_mode": render_mode} if render_mode else {})
        try:
            with _quiet_model(self.env_id):
                env = gymnasium.make(self.env_id, disable_env_checker=True, **options)
            for wrapper in self.wrappers:
                env = wrapper(env)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ConfigError(
                f"{self.env_id} needs a package: {error}", "Environment", "env_id"
            ) from None
        except Exception as error:
            text = " ".join(str(error).split())
            at_fault = (
                "env_options" if self.env_options and isinstance(error, TypeError) else "env_id"
            )
            raise ConfigError(
                f"can't make {self.env_id}: {text}", "Environment", at_fault
            ) from None
        if not isinstance(env.observation_space, gymnasium.spaces.Box):
            env = self._flattened(env)
        return Guard(env, index)

    def _flattened(self, env: gymnasium.Env) -> gymnasium.Env:
        """Discrete observations become one-hot, composite ones their parts in the space's order."""
        space = env.observation_space
        try:
            flat = gymnasium.wrappers.FlattenObservation(env)
        except NotImplementedError:
            flat = None
        if flat is None or not isinstance(flat.observation_space, gymnasium.spaces.Box):
            raise ConfigError(
                f"{self.env_id} observes {space}: acx has no network for that space",
                "Environment",
                "env_id",
            )
        return flat

    def make(self, num_envs: int, episode_seed: EpisodeSeed) -> VectorEnvironment:
        """`num_envs` environments under the common contract; DISABLED autoreset where possible."""
        if self.vectorization == "sync":
            return self.make_sync(num_envs, episode_seed)
        if self.vectorization in READY_MADE:
            return VectorEnvironment(VectorGuard(self._ready_made(num_envs)), episode_seed)
        makers = self._makers(num_envs)
        if self.vectorization == "parallel":
            return VectorEnvironment(ParallelVectorEnv(makers, self.step_timeout), episode_seed)
        makers = [functools.partial(_in_worker, os.getpid(), maker) for maker in makers]
        envs = _StepTimeout(makers, copy=False, autoreset_mode=AutoresetMode.DISABLED)
        envs.step_timeout = self.step_timeout
        return VectorEnvironment(envs, episode_seed)

    def make_sync(self, num_envs: int, episode_seed: EpisodeSeed) -> VectorEnvironment:
        """The same in this process, whatever training uses: for evaluation."""
        return VectorEnvironment(LocalVectorEnv(self._makers(num_envs)), episode_seed)

    def _makers(self, num_envs: int) -> list[Callable[[], gymnasium.Env]]:
        return [functools.partial(self.make_single, i) for i in range(num_envs)]

    def _ready_made(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        """The vector environment, if it has the spaces of the single one that evaluation uses."""
        single = self.make_single()
        single.close()
        if self.vectorization == "envpool":
            limit = single.spec.max_episode_steps if single.spec else None
            envs: gymnasium.vector.VectorEnv = EnvPoolVectorEnv(
                self.env_id, num_envs, self.env_options, limit
            )
        else:
            envs = self._native(num_envs)
        for does, same, one, other in (
            ("observes", _same_box, single.observation_space, envs.single_observation_space),
            ("takes", _same_actions, single.action_space, envs.single_action_space),
        ):
            if not same(one, other):
                envs.close()
                raise ConfigError(
                    f"{self.env_id} with vectorization = '{self.vectorization}' {does} {other}, "
                    f"but what acx evaluates in {does} {one}",
                    "Environment",
                    "vectorization",
                )
        return envs

    def _native(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        try:
            return gymnasium.make_vec(
                self.env_id,
                num_envs,
                vectorization_mode="vector_entry_point",
                **self.env_options,
            )
        except Exception as error:
            text = " ".join(str(error).split())
            raise ConfigError(
                f"{self.env_id} with vectorization = 'vector_entry_point': {text}",
                "Environment",
                "vectorization",
            ) from None

    def check(self, steps: int = 8) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        """Reset one environment and take a few random steps; make a ready-made vector class too.

        Returns:
          The observation space (a Box) and the action space.

        Raises:
          ConfigError: it can't be made. RunError: it misbehaves.
        """
        if self.vectorization in READY_MADE:
            self.make(1, lambda i, e: 0).close()
        env = self.make_single()
        try:
            env.action_space.seed(0)
            env.reset(seed=0)
            for step in range(1, steps + 1):
                observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                for name, value in (("reward", float(reward)), ("observation", observation)):
                    if not np.isfinite(value).all():
                        raise RunError(
                            f"a first try of {self.env_id} returned the {name} {value} in step "
                            f"{step}: it is not finite"
                        )
                if terminated or truncated:
                    env.reset(seed=1)
            return env.observation_space, env.action_space
        finally:
            env.close()


def _same_box(one: gymnasium.Space, other: gymnasium.Space) -> bool:
    """Whether both are Boxes of one shape and kind of number; bounds are not compared."""
    return (
        isinstance(one, gymnasium.spaces.Box)
        and isinstance(other, gymnasium.spaces.Box)
        and one.shape == other.shape
        and one.dtype.kind == other.dtype.kind
    )


def _same_actions(one: gymnasium.Space, other: gymnasium.Space) -> bool:
    """Whether both take the same actions; a Box may be of another precision."""
    if isinstance(one, gymnasium.spaces.Box) and isinstance(other, gymnasium.spaces.Box):
        return (
            _same_box(one, other)
            and np.allclose(one.low, other.low)
            and np.allclose(one.high, other.high)
        )
    return one == other
