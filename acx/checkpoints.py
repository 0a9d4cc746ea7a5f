"""Checkpoints: one file each, written atomically, verified by checksum, without pickle.

A checkpoint is NumPy's .npz followed by the SHA-256 of what precedes it. It is written to a
temporary file, synced and renamed, so that under its own name a file is complete or absent.
"""

import contextlib
import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from acx.errors import RunError
from acx.states import State

DIGEST_SIZE = hashlib.sha256().digest_size
SUFFIX = ".ckpt"


def save(path: Path, state: State) -> None:
    """Write a checkpoint; a crash at any moment leaves the old file or the new one.

    Raises:
      RunError: the file can't be written; whatever was there before is intact.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **state)  # type: ignore[arg-type]
    content = buffer.getbuffer()
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.write(hashlib.sha256(content).digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"can't write the checkpoint {path}: {error.strerror or error}") from None


def sync_folder(folder: Path) -> None:
    """Wait until what was renamed or removed in a folder is so on the disk itself."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: Path) -> State:
    """Read a checkpoint.

    Raises:
      RunError: the file can't be read, or is not what was written.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunError(f"can't read the checkpoint {path}: {error.strerror or error}") from None
    payload, digest = content[:-DIGEST_SIZE], content[-DIGEST_SIZE:]
    if hashlib.sha256(payload).digest() != digest:
        raise RunError(f"the checkpoint {path} is damaged: its checksum doesn't match")
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return dict(arrays)


class CheckpointFolder:
    """The newest checkpoints of a run, named by their environment steps.

    Args:
      folder: is created where missing; what a killed writer left over is removed.
      keep: how many are kept.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = folder
        self.keep = keep
        self.best = folder / f"best{SUFFIX}"
        folder.mkdir(parents=True, exist_ok=True)

    def clean(self) -> None:
        """Remove what a killed writer left over."""
        for leftover in self.folder.glob(f".*{SUFFIX}.tmp"):
            leftover.unlink()

    def paths(self) -> list[Path]:
        """All checkpoints, newest first."""
        return sorted(self.folder.glob(f"step-*{SUFFIX}"), reverse=True)

    def save(self, env_steps: int, state: State) -> None:
        """Write the checkpoint of `env_steps`, then drop the oldest beyond `keep`."""
        save(self.folder / f"step-{env_steps:012d}{SUFFIX}", state)
        for old in self.paths()[self.keep :]:
            old.unlink()

    def save_best(self, state: State) -> None:
        """Write the checkpoint of the best evaluation, replacing the one before."""
        save(self.best, state)

    def newest(self, warn: Callable[[str], None]) -> tuple[int, State] | None:
        """The newest whole checkpoint with its environment steps, or None where there is none.

        Damaged ones are named to `warn` and passed over.

        Raises:
          RunError: there are checkpoints, and all are damaged.
        """
        paths = self.paths()
        for path in paths:
            try:
                return int(path.stem.removeprefix("step-")), load(path)
            except RunError as error:
                warn(f"{error}; trying the one before")
        if paths:
            raise RunError(f"none of the {len(paths)} checkpoints in {self.folder} can be read")
        return None
