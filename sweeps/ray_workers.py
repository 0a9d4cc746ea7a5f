"""Workers on a Ray cluster: the same trials, results and folders as on one machine.

Ray places, watches and moves the workers; the folders must be on storage that all nodes share,
under the same path.
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from acx.errors import ConfigError
from sweeps.jobs import Job
from sweeps.workers import Answer

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise ConfigError("--backend=ray needs a package: pip install 'acx[ray]'") from None

RAYS_OWN = {"num_cpus", "num_gpus", "memory"}
SECONDS_TO_REACH = 10.0
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


@contextlib.contextmanager
def _reaching(address: str | None) -> Iterator[None]:
    """Say in one line that there is no cluster; Ray itself would try for minutes."""
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), SECONDS_TO_REACH).close()
        yield
    except OSError as error:
        reason = str(error).split(". ")[0]
        raise ConfigError(f"can't reach Ray at {address or 'this machine'}: {reason}") from None


def _require(resources: Iterable[str]) -> None:
    """Refuse a resource that no node of the cluster has: one would wait for it for ever."""
    there = {name for name in ray.cluster_resources() if not name.startswith("node:")}
    for name in resources:
        if name not in there:
            ray.shutdown()
            known = sorted(RAYS_OWN | there - {"CPU", "GPU", "object_store_memory"})
            raise ConfigError(
                f"--ray={name}: no node has such a resource; there are {', '.join(known)}"
            )


class RayWorkers:
    """A number of actors on a cluster; those that die, with their node or alone, are replaced.

    Args:
      count: how many.
      address: of a running cluster; None starts one on this machine, told to use 127.0.0.1.
      resources: that each worker takes of its node: num_cpus (1 if not given), num_gpus, memory
        in bytes, and what nodes were started with `--resources` for.

    Raises:
      ConfigError: there is no cluster, an amount isn't a number, or no node has the resource.
    """

    def __init__(
        self,
        count: int,
        address: str | None = None,
        resources: Mapping[str, int | float | str] | None = None,
    ) -> None:
        amounts = {"num_cpus": 1, **(resources or {})}
        for name, amount in amounts.items():
            if isinstance(amount, str):
                raise ConfigError(f"--ray={name}={amount}: not a number")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        local: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
        with _reaching(address):
            ray.init(
                address,
                log_to_driver=False,
                logging_level="error",
                runtime_env={"env_vars": {"PYTHONPATH": path}},
                **(local if address is None else {}),
            )
        self.count = count
        rays = {name: amount for name, amount in amounts.items() if name in RAYS_OWN}
        others = {name: amount for name, amount in amounts.items() if name not in RAYS_OWN}
        _require(others)
        self._actor = ray.remote(_Worker).options(resources=others, max_restarts=0, **rays)
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
