"""Compiled programs that outlive their process: XLA's persistent cache, kept sound.

Compiling takes seconds, and most runs need programs that an earlier one compiled. XLA can keep them
in a folder, but trusts what it finds there: a truncated file ends the run, a damaged one computes
anything. So each process works in a folder of its own, which holds links to those kept programs
whose checksum is right, and what it compiles anew is kept under its checksum.
"""

import atexit
import contextlib
import hashlib
import os
import shutil
from pathlib import Path

KEPT = 64  # programs, each of about half a megabyte: the newest

_FLAG = "--tf_xla_persistent_cache_directory="
_CPU_ONLY = "--tf_xla_persistent_cache_device_types=CPU"  # `_machine` knows no GPUs


class ExecutableCache:
    """The programs kept in a folder, and this process' own folder of links to them.

    Args:
      store: the folder; made where it is missing.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.own = store / f"process-{os.getpid()}"
        self._known: set[str] = set()

    def open(self) -> None:
        """Link the sound programs; drop damaged and old ones, and folders of ended processes.

        Raises:
          OSError: the folder can't be written.
        """
        self.store.mkdir(parents=True, exist_ok=True)
        for folder in self.store.glob("process-*"):
            if folder == self.own or not _is_alive(int(folder.name.rpartition("-")[2])):
                shutil.rmtree(folder, ignore_errors=True)
        self.own.mkdir()
        kept = sorted(self.store.glob("*.pb"), key=lambda file: file.stat().st_mtime, reverse=True)
        for number, file in enumerate(kept):
            checksum, _, name = file.name.partition("-")
            if number < KEPT and name not in self._known and _checksum(file) == checksum:
                os.link(file, self.own / name)
                self._known.add(name)
            else:
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Keep what this process compiled, and remove its folder."""
        for file in self.own.glob("*.pb"):
            if file.name not in self._known:
                os.link(file, self.store / f"{_checksum(file)}-{file.name}")
        shutil.rmtree(self.own, ignore_errors=True)


def cache_folder() -> Path:
    """Where this user's acx keeps what it can do without. Raises RuntimeError without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acx"


def use_kept_programs() -> None:
    """Let XLA use and keep programs. Call it before TensorFlow is loaded.

    Does nothing where `TF_XLA_FLAGS` names a folder already, or where none can be written.
    """
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _FLAG in flags:
        return
    cache = ExecutableCache(cache_folder() / f"executables-{_machine()}")
    try:
        cache.open()
    except OSError:  # a home that is missing, read-only or full
        return
    os.environ["TF_XLA_FLAGS"] = f"{flags} {_FLAG}{cache.own} {_CPU_ONLY}".strip()
    atexit.register(_close, cache, os.getpid())


def _close(cache: ExecutableCache, opener: int) -> None:
    if os.getpid() == opener:  # not in a fork of it
        with contextlib.suppress(OSError):  # another process kept the same, or the disk is full
            cache.close()


def _machine() -> str:
    """What a compiled program fits: TensorFlow's version, XLA's flags, the processor."""
    from importlib.metadata import version

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        import platform

        features = platform.platform() + platform.processor()
    flags = os.environ.get("XLA_FLAGS", "")
    return hashlib.sha256(f"{version('tensorflow')} {flags} {features}".encode()).hexdigest()[:16]


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
