"""Workers on a Ray cluster: the same trials, results and folders as on one machine.

Ray places, watches and moves the workers; the folders must be on storage that all nodes share,
under the same path.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from acx.errors import ConfigError
from sweeps.jobs import Job
from sweeps.workers import Answer

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise ConfigError("--backend=ray needs a package: pip install 'acx[ray]'") from None

SECONDS_TO_STOP = 30.0  # to start a process on each node that tells the workers, and to save


@ray.remote(num_cpus=0)
def _terminate(process: int) -> None:
    """Ask a process of this node to stop, as `kill` does."""
    os.kill(process, signal.SIGTERM)


class _Worker:
    """Runs as an actor: a process on some node that stays warm between trials."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)  # of the driver: paths in jobs are relative to it
        from acx.runtime import load_tensorflow

        self._device = load_tensorflow()
        from acx import runs

        self._session = runs.Session()

    def ready(self) -> dict[str, Any]:
        """Answers once the constructor is done, and where this process is."""
        node = ray.get_runtime_context().get_node_id()
        return {"kind": "ready", "node": node, "process": os.getpid()}

    def perform(self, kind: str, jobs: Sequence[Job]) -> dict[str, Any]:
        """See `sweeps.training.perform`."""
        from sweeps.training import perform

        return perform(kind, jobs, self._session, self._device)


class RayWorkers:
    """A number of actors on a cluster; those that die, with their node or alone, are replaced.

    Args:
      count: how many.
      address: of a running cluster; None starts one on this machine, told to use 127.0.0.1.
      cpus: that each worker takes of its node.
    """

    def __init__(self, count: int, address: str | None = None, cpus: float = 1.0) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        local: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
        ray.init(
            address,
            log_to_driver=False,
            logging_level="error",
            runtime_env={"env_vars": {"PYTHONPATH": path}},
            **(local if address is None else {}),
        )
        self.count = count
        self._actor = ray.remote(_Worker).options(num_cpus=cpus, max_restarts=0)
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, int] = {}
        self._places: dict[int, tuple[str, int]] = {}  # node and process of workers that are ready
        for worker in range(count):
            self._start(worker)

    def _start(self, worker: int) -> None:
        self._places.pop(worker, None)
        self._actors[worker] = self._actor.remote(os.getcwd())
        self._pending[self._actors[worker].ready.remote()] = worker

    def send(self, worker: int, kind: str, jobs: Sequence[Job]) -> None:
        """See `Workers`."""
        self._pending[self._actors[worker].perform.remote(kind, list(jobs))] = worker

    def answers(self, timeout: float) -> Iterator[Answer]:
        """See `Workers`."""
        done, _ = ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        for reference in done:
            worker = self._pending.pop(reference)
            try:
                content = ray.get(reference)
            except ray.exceptions.RayError as error:
                self._start(worker)
                lines = str(error).strip().splitlines()
                content = {
                    "kind": "died",
                    "how": f"{type(error).__name__} on the cluster",
                    "exit_code": 1,
                    "printed": lines[-1] if lines else "",
                }
            if content["kind"] == "ready":
                self._places[worker] = content["node"], content["process"]
            yield Answer(worker, content)

    def kill(self, worker: int) -> None:
        """See `Workers`."""
        ray.kill(self._actors[worker])
        if worker not in self._pending.values():
            self._start(worker)

    def stop(self) -> None:
        """See `Workers`. What doesn't save in time goes on from its newest checkpoint."""
        work = {ref: worker for ref, worker in self._pending.items() if worker in self._places}
        with contextlib.suppress(ray.exceptions.RayError):
            for worker in work.values():
                node, process = self._places[worker]
                there = NodeAffinitySchedulingStrategy(node, soft=False)
                _terminate.options(scheduling_strategy=there).remote(process)
            if work:
                ray.wait(list(work), num_returns=len(work), timeout=SECONDS_TO_STOP)
        for actor in self._actors.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)
        ray.shutdown()
