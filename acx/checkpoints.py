"""Checkpoints: one file each, written atomically, verified by checksum, without pickle.

A checkpoint is NumPy's .npz followed by the SHA-256 of what precedes it. It is written to a
temporary file, synced and renamed, so that under its own name a file is complete or absent.
"""

import contextlib
import hashlib
import io
import os
from pathlib import Path

import numpy as np

from acx.errors import RunError

State = dict[str, np.ndarray]

DIGEST_SIZE = hashlib.sha256().digest_size


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
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"can't write the checkpoint {path}: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
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
