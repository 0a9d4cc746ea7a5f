"""acx's command in forked processes that need not load TensorFlow again.

This process imports TensorFlow but never computes with it, so it has no threads or device state
that a fork would break; each child is as good as a new `python -m acx.main`.
"""

import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from acx import main, runs
from benchmarks.faults.outcome import Outcome

assert runs  # loaded here, once, instead of in every child


@dataclass
class Child:
    """A running command, in a session of its own."""

    pid: int
    log: Path
    started: float
    code: int | None = None  # minus the signal's number where a signal ended it

    def over(self) -> bool:
        """Whether it has ended; never waits."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, timeout: float = 300.0) -> int:
        """Wait for its end; its exit code.

        Raises:
          TimeoutError: it went on for longer than `timeout` seconds; it has been killed.
        """
        until = time.monotonic() + timeout
        while not self.over():
            if time.monotonic() > until:
                self.kill()
                raise TimeoutError(f"process {self.pid} went on for {timeout:.0f} s: {self.log}")
            time.sleep(0.005)
        assert self.code is not None
        return self.code

    def kill(self) -> None:
        """SIGKILL to the command alone: what it started must notice by itself."""
        if not self.over():
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)

    def survivors(self, timeout: float = 10.0) -> list[int]:
        """Processes of its session that are left; waits for them for `timeout` seconds."""
        until = time.monotonic() + timeout
        while (left := _session_members(self.pid)) and time.monotonic() < until:
            time.sleep(0.02)
        return left

    def output(self) -> str:
        """What it has written to stdout and stderr."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def _session_members(session: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended just now
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                members.append(int(entry.name))
    return members


def start(run: Callable[[], None], log: Path) -> Child:
    """Call `run` in a forked process whose output goes to `log`."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Child(pid, log, time.monotonic())
    code = 1
    try:
        os.setsid()
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        run()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start_acx(
    arguments: Sequence[str], log: Path, prepare: Callable[[], None] | None = None
) -> Child:
    """`python -m acx.main` with these arguments; `prepare` is called in the child before."""

    def run() -> None:
        if prepare is not None:
            prepare()
        sys.argv = ["acx", *arguments]
        main.run()

    return start(run, log)


def in_a_child(work: Callable[[], Outcome], log: Path) -> Outcome:
    """Call `work`, which may compute with TensorFlow, in a forked process; returns its outcome.

    Raises:
      RuntimeError: it failed.
    """
    return in_children([work], log)


def in_children(shares: Sequence[Callable[[], Outcome]], log: Path) -> Outcome:
    """Call each share of the work in a forked process of its own, side by side; their sum.

    Raises:
      RuntimeError: one of them failed.
    """
    answers = [log.with_suffix(f".{number}.json") for number in range(len(shares))]

    def answer(share: Callable[[], Outcome], path: Path) -> None:
        path.write_text(json.dumps(asdict(share())), encoding="utf-8")

    children = [
        start(functools.partial(answer, share, path), path.with_suffix(log.suffix))
        for share, path in zip(shares, answers, strict=True)
    ]
    for child in children:
        if child.wait(timeout=7200):
            raise RuntimeError(child.output()[-2000:])
    first, *others = [Outcome(**json.loads(path.read_text())) for path in answers]
    return functools.reduce(Outcome.plus, others, first)
