"""Large event files a second time: a Parquet copy of their scalars, keyed by size and time.

The copies lie in $XDG_CACHE_HOME/acx/events (~/.cache when unset), one per event file, and may be
deleted at any moment. Without pyarrow, or where they can't be written, everything is read anew.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from analysis.records import Damage
from analysis.scalars import EventFile, Series, read_event_file

WORTHWHILE = 4 << 20  # bytes; below, reading is as fast as the copy
SETTLED = 5.0  # seconds since the last write; a file still growing isn't copied
_VERSION = 1


def read_cached(path: Path, tags: Collection[str] | None = None) -> EventFile:
    """Do as `read_event_file`, from the copy where one is up to date.

    Raises:
        OSError: the event file can't be read.
    """
    stat = path.stat()
    if stat.st_size < WORTHWHILE or time.time() - stat.st_mtime < SETTLED:
        return read_event_file(path, tags)
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        return read_event_file(path, tags)
    key = {"version": _VERSION, "size": stat.st_size, "mtime": stat.st_mtime_ns}
    copy = _place(path)
    found = _load(copy, path, key, tags)
    if found is not None:
        return found
    found = read_event_file(path)
    _store(copy, found, key)
    if tags is not None:
        found.series = {tag: found.series[tag] for tag in found.series if tag in tags}
    return found


def _place(path: Path) -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return Path(root) / "acx" / "events" / f"{name}.parquet"


def _load(
    copy: Path, path: Path, key: dict[str, int], tags: Collection[str] | None
) -> EventFile | None:
    """Read the copy; None where there is none, or an old or a broken one."""
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(copy) as file:
            notes: dict[str, Any] = json.loads(file.schema_arrow.metadata[b"acx"])
            if notes["key"] != key:
                return None
            result = EventFile(path, texts=notes["texts"], hparams=notes["hparams"])
            result.damages = [Damage(path, *damage) for damage in notes["damages"]]
            # One row group per tag, in the order of `tags`.
            for index, tag in enumerate(notes["tags"]):
                if tags is None or tag in tags:
                    group = file.read_row_group(index)
                    result.series[tag] = Series(*(column.to_numpy() for column in group.columns))
            return result
    except (OSError, pyarrow.ArrowException, KeyError, TypeError, ValueError):
        return None


def _store(copy: Path, found: EventFile, key: dict[str, int]) -> None:
    """Write the copy whole or not at all."""
    import pyarrow
    import pyarrow.parquet

    notes = {
        "key": key,
        "tags": list(found.series),
        "texts": found.texts,
        "hparams": found.hparams,
        "damages": [(damage.offset, damage.size, damage.reason) for damage in found.damages],
    }
    types = {"step": pyarrow.int64(), "wall_time": pyarrow.float64(), "value": pyarrow.float64()}
    schema = pyarrow.schema(types, metadata={"acx": json.dumps(notes)})
    temporary = None
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=copy.parent, suffix=".part")
        os.close(handle)
        with pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for series in found.series.values():
                columns = {name: np.asarray(column) for name, column in asdict(series).items()}
                writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=1 << 30)
        os.replace(temporary, copy)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
