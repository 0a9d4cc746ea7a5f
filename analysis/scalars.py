"""Scalars and texts of one event file, as columns.

Records of equal length and layout are decoded together: the first of them is walked, the others are
compared with it outside the bytes that hold its numbers, and those bytes become NumPy columns.
"""

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tensorboard.compat.proto import event_pb2, summary_pb2, types_pb2
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

from analysis.layouts import Layout, layout_of
from analysis.records import Block, Damage, read_blocks

TAILOR_MADE = 256  # layouts of one record length before the rest is decoded one by one

_NUMBERS = {
    code
    for name, code in types_pb2.DataType.items()
    if name.startswith(("DT_INT", "DT_UINT"))
    or name in ("DT_FLOAT", "DT_DOUBLE", "DT_HALF", "DT_BFLOAT16", "DT_BOOL")
}


@dataclass(frozen=True)
class Series:
    """One tag of one event file in the order written: arrays [n] of equal length.

    `step` counts what the writer counted (environment steps in acx), `wall_time` is in seconds
    since 1970, `value` holds float32 and float64 scalars unchanged.
    """

    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass
class EventFile:
    """What was read from one event file: series and texts by tag, and what was lost."""

    path: Path
    series: dict[str, Series] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    hparams: dict[str, object] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)


def read_event_file(path: Path, tags: Collection[str] | None = None) -> EventFile:
    """Read all points of the scalars named in `tags` (of every scalar for None).

    Reads `simple_value` scalars and the tensors of TensorFlow 2, in float32, float64, half and
    integer types. Damage is skipped and listed in the result, never raised.

    Raises:
        OSError: the file can't be read.
    """
    result = EventFile(path)
    columns = _Columns(result, tags)
    for block in read_blocks(path, result.damages):
        columns.add(block)
    result.series = columns.series()
    return result


class _Columns:
    """Collects the pieces of each tag, and puts them in file order."""

    def __init__(self, result: EventFile, tags: Collection[str] | None) -> None:
        self._result = result
        self._wanted = None if tags is None else set(tags)
        self._pieces: dict[str, list[tuple[NDArray[np.int64], Series]]] = defaultdict(list)
        self._known: dict[int, list[tuple[bytes, Layout]]] = defaultdict(list)
        self._count = 0

    def add(self, block: Block) -> None:
        """Decode one block of records."""
        padded = np.frombuffer(block.buffer + bytes(8), np.uint8)
        order = np.argsort(block.lengths, kind="stable")
        sizes, begins = np.unique(block.lengths[order], return_index=True)
        for size, rows in zip(sizes.tolist(), np.split(order, begins[1:]), strict=True):
            self._add_equals(block, padded, size, rows)
        self._count += len(block.starts)

    def _add_equals(
        self, block: Block, padded: NDArray[np.uint8], size: int, rows: NDArray[np.int64]
    ) -> None:
        """Decode the records `rows`, which are all `size` bytes long."""
        known, tried = self._known[size], 0
        matrix = _gather(padded, block.starts[rows], size)
        while len(rows):
            if tried == len(known):
                event = matrix[0, :size].tobytes()
                spare = len(known) < TAILOR_MADE
                layout = self._common_layout(event, block, int(rows[0]), spare)
                if layout is None:
                    rows, matrix = rows[1:], matrix[1:]
                    continue
                known.append((event, layout))
            event, layout = known[tried]
            same = _same_layout(matrix, event, layout)
            self._extract(matrix[same], layout, rows[same] + self._count)
            rows, matrix = rows[~same], matrix[~same]
            tried += 1

    def _common_layout(self, event: bytes, block: Block, row: int, spare: bool) -> Layout | None:
        """Return the layout of an event if it serves others too; else decode the event here."""
        try:
            layout = layout_of(event)
            if layout.slots and layout.plain and spare:
                return layout
            if layout.slots:
                self._decode(event, row + self._count)
        except (ValueError, DecodeError) as error:
            reason = f"the record holds no event ({error})"
            offset = block.offset + int(block.starts[row])
            self._result.damages.append(Damage(self._result.path, offset, len(event), reason))
        return None

    def _extract(self, matrix: NDArray[np.uint8], layout: Layout, order: NDArray[np.int64]) -> None:
        """Turn n records of one layout, matrix [n, size], into columns."""
        if not len(matrix):
            return
        step = _varints(matrix[:, layout.step : layout.step + layout.step_size])
        wall_time = _numbers(matrix, layout.wall_time, "<f8")
        for slot in layout.slots:
            tag = slot.tag.decode("utf-8", "replace")
            if self._wanted is None or tag in self._wanted:
                value = _numbers(matrix, slot.position, str(slot.kind.value))
                self._pieces[tag].append((order, Series(step, wall_time, value)))

    def _decode(self, content: bytes, row: int) -> None:
        """Decode one event by protobuf: other types, texts, hyperparameters, or a rare layout."""
        event = event_pb2.Event.FromString(content)
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            if plugin == "text":
                self._result.texts[value.tag] = _text(value)
            elif plugin == "hparams":
                self._result.hparams.update(_hparams(value))
            elif plugin in ("", "scalars"):
                number = _scalar(value)
                if number is not None and (self._wanted is None or value.tag in self._wanted):
                    step, wall_time = np.array([event.step]), np.array([event.wall_time])
                    point = Series(step, wall_time, np.array([number]))
                    self._pieces[value.tag].append((np.array([row]), point))

    def series(self) -> dict[str, Series]:
        """Join the pieces of each tag, sorted by their place in the file."""
        return {tag: _joined(pieces) for tag, pieces in self._pieces.items()}


def _joined(pieces: list[tuple[NDArray[np.int64], Series]]) -> Series:
    order = np.concatenate([place for place, _ in pieces])
    columns = [
        np.concatenate([getattr(piece, name) for _, piece in pieces])
        for name in ("step", "wall_time", "value")
    ]
    if len(order) > 1 and np.any(order[1:] < order[:-1]):
        places = np.argsort(order, kind="stable")
        columns = [column[places] for column in columns]
    return Series(*columns)


def _gather(padded: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    """Copy n records into [n, size rounded up to 8]; the excess bytes are of no meaning."""
    width = -(-size // 8) * 8
    windows = np.lib.stride_tricks.sliding_window_view(padded, max(width, 8))
    return windows[starts]


def _same_layout(matrix: NDArray[np.uint8], event: bytes, layout: Layout) -> NDArray[np.bool_]:
    """Say for each record [n] whether it equals `event` in all bits that aren't numbers."""
    width = matrix.shape[1]
    mask = np.zeros(width, np.uint8)
    mask[: len(event)] = layout.shared_bits(len(event))
    words, wanted = matrix.view(np.uint64), mask.view(np.uint64)
    pattern = np.frombuffer(event.ljust(width, b"\0"), np.uint64)
    same = np.ones(len(matrix), np.bool_)
    for column in np.flatnonzero(wanted):
        same &= ((words[:, column] ^ pattern[column]) & wanted[column]) == 0
    return same


def _numbers(matrix: NDArray[np.uint8], position: int, dtype: str) -> NDArray[np.float64]:
    """Read the float at byte `position` of each record; zeros where the field is absent (-1)."""
    if position < 0:
        return np.zeros(len(matrix))
    content = np.ascontiguousarray(matrix[:, position : position + np.dtype(dtype).itemsize])
    return content.view(dtype)[:, 0].astype(np.float64)


def _varints(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Read the varints [n, size], all of one size; negative numbers take ten bytes."""
    value = np.zeros(len(octets), np.uint64)
    for column in range(octets.shape[1]):
        value |= (octets[:, column].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * column)
    return value.astype(np.int64)


def _scalar(value: summary_pb2.Summary.Value) -> float | None:
    """Return the only number of a value; None for what isn't one."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.dtype not in _NUMBERS:
        return None
    if math.prod(dimension.size for dimension in value.tensor.tensor_shape.dim) != 1:
        return None
    try:
        array = tensor_util.make_ndarray(value.tensor)
    except (TypeError, ValueError):
        return None
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def _text(value: summary_pb2.Summary.Value) -> str:
    return "\n".join(part.decode("utf-8", "replace") for part in value.tensor.string_val)


def _hparams(value: summary_pb2.Summary.Value) -> dict[str, object]:
    """Return the hyperparameters that a session's start of the HParams plugin holds."""
    content = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
    return {
        name: getattr(number, kind)
        for name, number in content.session_start_info.hparams.items()
        if (kind := number.WhichOneof("kind")) is not None
    }
