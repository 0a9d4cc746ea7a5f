"""Environments stepped on all cores: a share of them in this process, the others in one a core."""

import functools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import CloudpickleWrapper

from acx.environments.guard import listed
from acx.environments.local import LocalVectorEnv
from acx.errors import ConfigError, RunError

TRIES = 2_000  # of a semaphore before sleeping on it: longer than acting takes, and than waking
STEP, RESET, CLOSE = range(3)
NO_SEED = -1

Maker = Callable[[], gymnasium.Env]
Memory = dict[str, tuple[Any, tuple[int, ...], np.dtype[Any]]]  # bytes, shape, dtype of each array


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def leave_ctrl_c_to_parent() -> None:
    """In a worker process: undo what a fork inherited from a run that saves when interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class ParallelVectorEnv(gymnasium.vector.VectorEnv):
    """N environments in as many processes as there are cores, this one included.

    What goes between the processes lies in memory that they share, and one that waits for another
    tries for a moment before it sleeps: handing a step over takes some ten microseconds, where a
    message takes a hundred. What is returned are buffers that the next step overwrites.

    Args:
      makers: make the environments, all with the same spaces.
      step_timeout: seconds that the other processes may take for a step or reset. What hangs in
        this one can't be stopped.

    Raises:
      RunError: from `step` and `reset`: an environment failed, or a process died or hung.
    """

    def __init__(self, makers: Sequence[Maker], step_timeout: float) -> None:
        self.closed = True  # as long as there is nothing to close
        self.num_envs = len(makers)
        shares = np.array_split(np.arange(self.num_envs), min(available_cores(), self.num_envs))
        own, *others = [slice(share[0], share[-1] + 1) for share in shares]
        self._own, self._local = own, LocalVectorEnv(makers[own])
        self.metadata = self._local.metadata
        self.single_observation_space = self._local.single_observation_space
        self.single_action_space = self._local.single_action_space
        self.observation_space = gymnasium.vector.utils.batch_space(
            self.single_observation_space, self.num_envs
        )
        self.action_space = gymnasium.vector.utils.batch_space(
            self.single_action_space, self.num_envs
        )
        context = multiprocessing.get_context()
        memory = _allocate(context, self.observation_space, self.action_space, self.num_envs)
        self._shared = _views(memory)
        self._local.return_in(*_buffers(self._shared, own))
        self._buffers = _buffers(self._shared, slice(None))
        self._timeout = step_timeout
        self._workers: list[_Worker] = []
        self.closed = False
        try:
            for share in others:
                self._workers.append(_start(context, makers[share], memory, share))
            for worker in self._workers:  # has made its environments
                self._wait_for(worker, np.inf)
        except BaseException:
            self.close()
            raise

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all: one action each, [N, ...]."""
        self._shared["actions"][:] = actions
        self._send(STEP, self._workers)
        self._local.step(actions[self._own])
        for worker in self._workers:
            self._wait_for(worker, self._timeout)
        return *self._buffers, {}

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all, or those in `options["reset_mask"]`, each with its entry of `seed`."""
        mask = self._shared["mask"]
        mask[:] = True if options is None else options["reset_mask"]
        self._shared["seeds"][:] = [NO_SEED if each is None else each for each in seed]
        concerned = [worker for worker in self._workers if mask[worker.share].any()]
        self._send(RESET, concerned)
        _reset(self._local, self._shared, self._own)
        for worker in concerned:
            self._wait_for(worker, self._timeout)
        return self._shared["observations"], {}

    def _send(self, command: int, workers: Sequence["_Worker"]) -> None:
        self._shared["command"][0] = command
        for worker in workers:
            worker.go.release()

    def _wait_for(self, worker: "_Worker", seconds: float) -> None:
        """Until it has done what was sent.

        Raises:
          RunError: it failed, died, or took longer.
        """
        given_up = time.monotonic() + seconds
        alive, late = True, False
        while not _acquired(worker.done, 0.1):
            environments = listed(range(self.num_envs)[worker.share])
            if late:
                raise RunError(f"environment {environments} did not answer in time")
            if not alive:
                raise RunError(
                    f"the process of environment {environments} died "
                    f"(exit code {worker.process.exitcode})"
                )
            # What it did just before it ended is found in one more try.
            alive, late = worker.process.is_alive(), time.monotonic() > given_up
        if self._shared["failed"][worker.share].any():
            raise RunError(worker.failure.recv())

    def close_extras(self, **kwargs: Any) -> None:
        """End the processes, also hung ones."""
        self._send(CLOSE, self._workers)
        try:
            self._local.close()
        finally:
            patience = time.monotonic() + 1
            for worker in self._workers:
                worker.process.join(timeout=max(0.0, patience - time.monotonic()))
                worker.process.kill()
                worker.process.join()
                worker.failure.close()


class _Worker(NamedTuple):
    """Another process, as this one sees it."""

    process: multiprocessing.process.BaseProcess
    share: slice  # its environments
    go: Any  # semaphore: there is a command
    done: Any  # semaphore: it has been followed
    failure: Connection  # the text of a RunError, where `failed` is set


def _start(context: Any, makers: Sequence[Maker], memory: Memory, share: slice) -> _Worker:
    go, done = context.Semaphore(0), context.Semaphore(0)
    receiver, sender = context.Pipe(duplex=False)
    make: Any = functools.partial(LocalVectorEnv, makers)
    process = context.Process(
        target=_work, args=(CloudpickleWrapper(make), memory, share, go, done, sender), daemon=True
    )
    process.start()
    sender.close()
    return _Worker(process, share, go, done, receiver)


def _work(make: Any, memory: Memory, share: slice, go: Any, done: Any, failure: Connection) -> None:
    """Follow commands until there are no more, or nobody to give them."""
    leave_ctrl_c_to_parent()
    shared = _views(memory)
    named = listed(range(len(shared["mask"]))[share])
    parent, started_by = multiprocessing.parent_process(), os.getppid()
    assert parent is not None
    try:
        envs = make.fn()
        envs.return_in(*_buffers(shared, share))
        done.release()
        while True:
            while not _acquired(go, 0.1):
                # Processes that were started later keep the parent alive in the eyes of this one.
                if os.getppid() != started_by or not parent.is_alive():
                    return
            command = shared["command"][0]
            if command == CLOSE:
                envs.close()
                return
            if command == STEP:
                envs.step(shared["actions"][share].copy())  # an environment may keep its action
            else:
                _reset(envs, shared, share)
            done.release()
    except Exception as error:
        shared["failed"][share] = True
        done.release()
        text = str(error) if isinstance(error, RunError | ConfigError) else repr(error)
        failure.send(text if isinstance(error, RunError) else f"environment {named}: {text}")


def _reset(envs: LocalVectorEnv, shared: dict[str, np.ndarray], share: slice) -> None:
    """Reset those of a share that are in the mask."""
    seeds = [None if each == NO_SEED else each for each in shared["seeds"][share].tolist()]
    envs.reset(seed=seeds, options={"reset_mask": shared["mask"][share]})


def _acquired(semaphore: Any, seconds: float) -> bool:
    """Whether it could be had in that time."""
    for _ in range(TRIES):
        if semaphore.acquire(False):
            return True
    return bool(semaphore.acquire(True, seconds))


def _allocate(
    context: BaseContext, observations: gymnasium.Space, actions: gymnasium.Space, num_envs: int
) -> Memory:
    assert observations.shape is not None
    assert actions.shape is not None
    arrays = {
        "observations": (observations.shape, observations.dtype),
        "rewards": ((num_envs,), np.float64),
        "terminated": ((num_envs,), bool),
        "truncated": ((num_envs,), bool),
        "actions": (actions.shape, actions.dtype),
        "mask": ((num_envs,), bool),  # to be reset
        "seeds": ((num_envs,), np.int64),
        "failed": ((num_envs,), bool),
        "command": ((1,), np.int64),
    }
    return {
        name: (
            context.RawArray("b", int(np.prod(shape)) * np.dtype(of).itemsize),
            shape,
            np.dtype(of),
        )
        for name, (shape, of) in arrays.items()
    }


def _views(memory: Memory) -> dict[str, np.ndarray]:
    return {
        name: np.frombuffer(held, dtype).reshape(shape)
        for name, (held, shape, dtype) in memory.items()
    }


def _buffers(
    shared: dict[str, np.ndarray], share: slice
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What a step returns of a share: observations, rewards, terminated, truncated."""
    return (
        shared["observations"][share],
        shared["rewards"][share],
        shared["terminated"][share],
        shared["truncated"][share],
    )
