"""Running acx's command in this process, and in one of its own."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from absl.testing import flagsaver

TESTS = Path(__file__).parent
TINY = TESTS / "tiny.gin"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run_here(monkeypatch, capsys, *arguments):
    """`acx` with these arguments, without a new process."""
    from acx import main

    monkeypatch.setattr(sys, "argv", ["acx", *map(str, arguments)])
    capsys.readouterr()
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as stopped:
        main.run()
    captured = capsys.readouterr()
    return Outcome(stopped.value.code or 0, captured.out, captured.err)


def start_process(*arguments, cwd, **options):
    """`python -m acx.main` with these arguments, where the toy environments can be found."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return subprocess.Popen(
        [sys.executable, "-m", "acx.main", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run_process(*arguments, cwd, timeout=120):
    """The same to its end."""
    process = start_process(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err)


def wait_for(condition, timeout=60):
    """Until the condition holds; fails after so many seconds."""
    until = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def process_exists(process):
    """Whether it has not ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def group_exists(group):
    """Whether a process of that group is left."""
    return process_exists(-group)
