"""Keep TensorFlow loaded for the commands to come: python -m acx.warm

Loading TensorFlow takes longer than all else that a short command does. This process loads it
once. While it runs, acx's other commands in any terminal start as copies of it, with their own
code, files and environment variables: they do the same, and do it sooner. Ctrl-C ends it; commands
that have started go on.
"""

import contextlib
import hashlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from acx.executables import cache_folder
from acx.runtime import import_tensorflow

# What a command imports besides TensorFlow. Nothing that its user may be editing.
ALSO = (
    *("keras", "gymnasium", "gin", "pydantic.fields", "pydantic.validate_call_decorator"),
    *("rich.progress", "tensorboard.plugins.custom_scalar.summary", "google_crc32c"),
)
# Libraries read these while they are loaded, so a warm process serves commands that have the same.
READ_AT_IMPORT = (
    *("TF_", "XLA_", "KERAS_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "NPY_", "MALLOC_"),
    *("ABSL_", "PYTHON", "LD_", "LANG", "LC_"),
)
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCONT")
PATIENCE = 1.0  # seconds for a warm process to answer; it takes 10 ms, where it isn't stopped
is_copy = False  # of a warm process


def hand_over(module: str) -> None:
    """Let a warm process run this command; returns where there is none.

    Otherwise this process passes signals on until the command is over, and leaves with its exit
    code.

    Args:
      module: the command's module. Where it isn't what this process was started for, as in a test
        that calls its function, nothing is handed over.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if is_copy or (started.name if started else f"{Path(sys.argv[0]).name}.main") != module:
        return
    if not hasattr(socket, "send_fds"):  # Windows
        return
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(str(_address()))
        connection.recv(1)
        connection.settimeout(None)
        socket.send_fds(connection, [b"0"], [0, 1, 2])
    except (OSError, RuntimeError):  # nobody there, or no home where somebody could be
        connection.close()
        return
    mask = os.umask(0)
    os.umask(mask)
    ignored = [
        name for name in FORWARDED if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN
    ]
    command = {
        "module": module,
        "arguments": sys.argv,
        "path": sys.path,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "ignored": ignored,
        "mask": mask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
    }

    def forward(signum: int, frame: FrameType | None) -> None:
        stops = signum == signal.SIGTSTP and "SIGTSTP" not in ignored
        connection.send(bytes([signal.SIGSTOP if stops else signum]))
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)

    for name in FORWARDED:
        signal.signal(getattr(signal, name), forward)
    connection.sendall(json.dumps(command).encode() + b"\n")
    answer = connection.recv(4)
    if not answer:
        sys.exit("the warm process that ran this command was killed")
    (code,) = struct.unpack("!i", answer)
    if code < 0:  # by a signal: this process, too
        with contextlib.suppress(OSError):  # SIGKILL has no handler to take back
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def serve() -> None:
    """Load TensorFlow, and start commands until this process is interrupted."""
    address = _address()  # importing sets variables
    with socket.socket(socket.AF_UNIX) as another, contextlib.suppress(OSError):
        another.connect(str(address))
        sys.exit("acx.warm: a warm process is running already")
    print("loading TensorFlow", flush=True)
    import_tensorflow()
    for name in ALSO:
        importlib.import_module(name)
    with _listening(address) as listener:
        print("ready: acx's commands start from here. Ctrl-C ends it", flush=True)
        while True:
            connection, _ = listener.accept()
            if _fork() == 0:
                break
            connection.close()
    _run(connection)


@contextlib.contextmanager
def _listening(address: Path) -> Iterator[socket.socket]:
    owner = os.getpid()
    address.parent.mkdir(parents=True, exist_ok=True)
    address.unlink(missing_ok=True)  # of one that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        mask = os.umask(0o177)  # for this user alone
        try:
            listener.bind(str(address))
        except OSError as error:
            sys.exit(f"acx.warm: can't listen at {address}: {error}")
        os.umask(mask)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody has to wait for them
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.default_int_handler)
        try:
            yield listener
        except KeyboardInterrupt:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, signal.SIG_IGN)
            sys.exit(0)
        finally:
            if os.getpid() == owner:
                address.unlink(missing_ok=True)


def _run(connection: socket.socket) -> None:
    """Run the command in a process of its own, watched by this one."""
    os.setsid()  # Ctrl-C where the warm process runs means that process
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    line = ""
    ended, tell = socket.socketpair()
    tell.setblocking(False)
    with connection.makefile() as lines, contextlib.suppress(ConnectionError):
        connection.send(b"0")
        _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
        line = lines.readline()
    if not line.endswith("\n"):  # who connected is gone, or only looked whether somebody is here
        os._exit(0)
    command = json.loads(line)
    pid = _fork()
    if pid != 0:
        signal.set_wakeup_fd(tell.fileno())
        _watch(pid, connection, ended)
        os._exit(0)
    for each in (connection, ended, tell):
        each.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    _become(command, descriptors)
    runpy.run_module(command["module"], run_name="__main__", alter_sys=True)


def _watch(pid: int, connection: socket.socket, ended: socket.socket) -> None:
    """Pass the command its signals, and say how it ended."""
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    watched = [connection, ended]
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with contextlib.suppress(OSError):
                connection.send(struct.pack("!i", os.waitstatus_to_exitcode(status)))
            return
        ready, _, _ = select.select(watched, [], [])
        if ended in ready:
            ended.recv(1)
        if connection in ready:
            sent = connection.recv(1)
            if not sent:  # who asked for the command was killed
                watched.remove(connection)
            signum = sent[0] if sent else signal.SIGTERM
            # What a terminal sends goes to all processes of a command.
            with contextlib.suppress(ProcessLookupError):
                (os.kill if signum == signal.SIGTERM else os.killpg)(pid, signum)


def _become(command: dict[str, Any], descriptors: list[int]) -> None:
    """Take over what a process inherits, and forget acx's own modules: they may have changed."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    for name in FORWARDED:
        usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
        ignored = name in command["ignored"]  # as nohup does it
        signal.signal(getattr(signal, name), signal.SIG_IGN if ignored else usual)
    os.umask(command["mask"])
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    with contextlib.suppress(OSError):  # a core or a niceness that this process may not have
        os.setpriority(os.PRIO_PROCESS, 0, command["nice"])
        if command["cores"]:
            os.sched_setaffinity(0, command["cores"])
    sys.argv, sys.path[:] = command["arguments"], command["path"]
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acx"]:
        del sys.modules[name]
    vars(importlib.import_module("acx.warm"))["is_copy"] = True
    importlib.import_module("acx.runtime").choose_xla_flags()


def _fork() -> int:
    with warnings.catch_warnings():  # of threads that aren't copied; NumPy's are made anew
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _address() -> Path:
    """The socket of this user's warm process with this Python, these packages and variables."""
    sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    packages = [(path, os.stat(path).st_mtime_ns) for path in sites if os.path.isdir(path)]
    read = sorted(pair for pair in os.environ.items() if pair[0].startswith(READ_AT_IMPORT))
    same = repr((sys.executable, sys.version, packages, read)).encode()
    return cache_folder() / f"warm-{hashlib.sha256(same).hexdigest()[:16]}.sock"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(__doc__.strip())
        sys.exit(0 if "--help" in sys.argv else 2)
    serve()
