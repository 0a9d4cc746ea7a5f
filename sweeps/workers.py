"""Worker processes on this machine: started, watched and replaced one by one.

No pool is shared: what one worker does, dying included, touches no other.
"""

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sweeps.jobs import Job

SECONDS_TO_STOP = 15.0  # to save
SECONDS_TO_EXIT = 1.0  # after the last word


@dataclass(frozen=True)
class Answer:
    """What a worker said: `content["kind"]` is ready, trained, checked, measured or died."""

    worker: int
    content: dict[str, Any]


class Workers(Protocol):
    """A fixed number of numbered places for workers, wherever they run."""

    count: int

    def send(self, worker: int, kind: str, jobs: Sequence[Job]) -> None:
        """Give work to a worker that is ready."""

    def answers(self, timeout: float) -> Iterator[Answer]:
        """What has been answered since, after waiting a little. The dead are replaced."""

    def kill(self, worker: int) -> None:
        """End a worker that is of no more use; `answers` reports it as dead."""

    def stop(self) -> None:
        """Let all workers save what they are doing, and end them."""


class _Process:
    """One worker process, in a process group of its own."""

    def __init__(self, lock: int) -> None:
        reading, writing = os.pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        with os.fdopen(writing, "wb"):
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sweeps.worker", str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(writing, lock),
                start_new_session=True,
            )
        os.set_blocking(reading, False)
        self.descriptor = reading
        self._partial = b""

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is reported in its own time
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """Whole answers that have come, and whether the process is over."""
        ended = False
        with contextlib.suppress(BlockingIOError):
            while True:
                piece = os.read(self.descriptor, 65536)
                self._partial += piece
                if not piece:
                    ended = True
                    break
        *lines, self._partial = self._partial.split(b"\n")
        return [json.loads(line) for line in lines], ended or self.process.poll() is not None

    def bury(self) -> dict[str, Any]:
        """End what is left of it, its environments' processes included; how it died."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(SECONDS_TO_EXIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with self._stderr:
            self._stderr.seek(0)
            printed = self._stderr.read().decode(errors="replace").strip()
        os.close(self.descriptor)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return {"kind": "died", "how": how, "exit_code": code, "printed": printed}


class LocalWorkers:
    """Worker processes on this machine.

    Args:
      count: how many.
      lock: a descriptor that workers inherit: the sweep stays locked until the last has left.
    """

    def __init__(self, count: int, lock: int) -> None:
        self.count = count
        self._lock = lock
        self._selector = selectors.DefaultSelector()
        self._processes: dict[int, _Process] = {}
        for worker in range(count):
            self._start(worker)

    def _start(self, worker: int) -> None:
        started = _Process(self._lock)
        self._processes[worker] = started
        self._selector.register(started.descriptor, selectors.EVENT_READ, worker)

    def send(self, worker: int, kind: str, jobs: Sequence[Job]) -> None:
        """See `Workers`."""
        listed = [dataclasses.asdict(job) for job in jobs]
        self._processes[worker].send({"kind": kind, "jobs": listed})

    def answers(self, timeout: float) -> Iterator[Answer]:
        """See `Workers`."""
        self._selector.select(timeout)
        for worker, process in list(self._processes.items()):
            answers, ended = process.read()
            for content in answers:
                yield Answer(worker, content)
            if ended:
                self._selector.unregister(process.descriptor)
                death = process.bury()
                self._start(worker)
                yield Answer(worker, death)

    def kill(self, worker: int) -> None:
        """See `Workers`."""
        self._processes[worker].process.kill()

    def stop(self) -> None:
        """See `Workers`. Whoever doesn't leave in time is killed."""
        for process in self._processes.values():
            with contextlib.suppress(BrokenPipeError):
                process.process.stdin.close()  # type: ignore[union-attr]
        deadline = time.monotonic() + SECONDS_TO_STOP
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.process.wait(max(deadline - time.monotonic(), 0.1))
            process.bury()
        self._selector.close()
        self._processes = {}
