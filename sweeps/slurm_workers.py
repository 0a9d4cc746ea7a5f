"""Workers on a Slurm cluster: one job for each trial, through submitit.

The folders must be on storage that all nodes share, under the same path. A job that Slurm preempts
or that runs out of time is queued again, and goes on from the trial's checkpoint.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acx.errors import ConfigError
from sweeps.jobs import Job
from sweeps.workers import Answer

try:
    import submitit
except ImportError:
    raise ConfigError("--backend=slurm needs a package: pip install 'acx[slurm]'") from None

SECONDS_TO_STOP = 60.0  # Slurm leaves jobs 30 s to save, unless it is set up otherwise


class _Work(submitit.helpers.Checkpointable):
    """What a Slurm job runs. Queued again it does the same, which resumes the trial."""

    def __call__(self, folder: str, kind: str, jobs: Sequence[Job]) -> dict[str, Any]:
        os.chdir(folder)  # of the driver: paths in jobs are relative to it
        from acx.runtime import load_tensorflow

        device = load_tensorflow()
        from acx import runs
        from sweeps.training import perform

        return perform(kind, jobs, runs.Session(), device)


class SlurmWorkers:
    """A number of Slurm jobs at a time.

    Args:
      count: how many.
      folder: where submitit keeps its files; it holds pickles, so keep it private.
      options: submitit's, such as {"slurm_partition": "cpu", "timeout_min": 60}.
      cluster: "slurm"; "local" runs the jobs as processes of this machine, to try it out.
    """

    def __init__(
        self, count: int, folder: Path, options: Mapping[str, Any], cluster: str = "slurm"
    ) -> None:
        self.count = count
        try:
            self._executor = submitit.AutoExecutor(folder, cluster=cluster)
            self._executor.update_parameters(**{"name": "acx", "cpus_per_task": 1, **options})
        except (RuntimeError, NameError, TypeError) as error:
            raise ConfigError(f"can't use Slurm: {' '.join(str(error).split())}") from None
        self._jobs: dict[int, Any] = {}
        self._free = set(range(count))  # and not yet reported as ready

    def send(self, worker: int, kind: str, jobs: Sequence[Job]) -> None:
        """See `Workers`."""
        self._jobs[worker] = self._executor.submit(_Work(), os.getcwd(), kind, list(jobs))

    def answers(self, timeout: float) -> Iterator[Answer]:
        """See `Workers`."""
        for worker in sorted(self._free):
            yield Answer(worker, {"kind": "ready"})
        self._free.clear()
        done = [worker for worker, job in self._jobs.items() if job.done()]
        if not done:
            time.sleep(timeout)
        for worker in done:
            yield Answer(worker, self._result(worker))

    def _result(self, worker: int) -> dict[str, Any]:
        job = self._jobs.pop(worker)
        try:
            return job.result()
        except Exception as error:  # of submitit's several kinds
            self._free.add(worker)
            return {
                "kind": "died",
                "how": f"Slurm job {job.job_id}: {job.state}",
                "exit_code": 1,
                "printed": str(error).strip(),
            }

    def kill(self, worker: int) -> None:
        """See `Workers`."""
        if worker in self._jobs:
            self._jobs[worker].cancel()
        else:
            self._free.add(worker)

    def stop(self) -> None:
        """See `Workers`. Slurm asks a canceled job to stop before it kills it."""
        for job in self._jobs.values():
            with contextlib.suppress(Exception):
                job.cancel(check=False)
        deadline = time.monotonic() + SECONDS_TO_STOP
        for job in self._jobs.values():
            while not job.done(force_check=True) and time.monotonic() < deadline:
                time.sleep(0.5)
