"""Where the numbers of a serialized TensorBoard event stand, found by walking its wire format.

Events of one tag differ only in their wall time, step and value, so one walk serves thousands of
records (`scalars.py`). Field numbers are those of tensorboard/compat/proto: event.proto,
summary.proto, tensor.proto and types.proto.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PICTURE_FIELDS = {4, 5, 6}  # Summary.Value: image, histo, audio
NOT_SCALAR_PLUGINS = {b"images", b"histograms", b"audio", b"distributions", b"mesh", b"pr_curves"}


class Kind(Enum):
    """How a value is stored: its NumPy dtype, or None where protobuf itself must decode it."""

    FLOAT = "<f4"
    DOUBLE = "<f8"
    OTHER = None


@dataclass(frozen=True)
class Slot:
    """One value: its tag, its kind and the byte at which it starts (-1 for Kind.OTHER)."""

    tag: bytes
    kind: Kind
    position: int


@dataclass(frozen=True)
class Layout:
    """The places of an event's numbers; position -1 stands for a field that is absent (zero)."""

    wall_time: int
    step: int
    step_size: int
    slots: tuple[Slot, ...]

    @property
    def plain(self) -> bool:
        """Whether every value is a float at a fixed place."""
        return all(slot.kind is not Kind.OTHER for slot in self.slots)

    def shared_bits(self, size: int) -> NDArray[np.uint8]:
        """Return [size] masks: 1 for each bit that an event of the same layout must share."""
        mask = np.full(size, 0xFF, np.uint8)
        if self.wall_time >= 0:
            mask[self.wall_time : self.wall_time + 8] = 0
        # A varint keeps its length: the continuation bits stay, the seven others are free.
        mask[self.step : self.step + self.step_size] = 0x80
        for slot in self.slots:
            if slot.kind is not Kind.OTHER:
                width = np.dtype(slot.kind.value).itemsize
                mask[slot.position : slot.position + width] = 0
        return mask


def layout_of(event: bytes) -> Layout:
    """Walk one serialized Event.

    Raises:
        ValueError: the bytes aren't an Event.
    """
    wall_time, step, step_size = -1, 0, 0
    slots: list[Slot] = []
    for number, wire, begin, end in fields(event, 0, len(event)):
        if number == 1 and wire == FIXED64:
            wall_time = begin
        elif number == 2 and wire == VARINT:
            step, step_size = begin, end - begin
        elif number == 5 and wire == BYTES:
            for inner, inner_wire, start, stop in fields(event, begin, end):
                if inner == 1 and inner_wire == BYTES:
                    slot = _value(event, start, stop)
                    if slot is not None:
                        slots.append(slot)
    return Layout(wall_time, step, step_size, tuple(slots))


def fields(message: bytes, position: int, end: int) -> list[tuple[int, int, int, int]]:
    """List the fields of a message in `message[position:end]`: (number, wire type, begin, end).

    begin and end enclose the field's content, without its key and length.

    Raises:
        ValueError: the bytes aren't a protobuf message.
    """
    found = []
    while position < end:
        key, position = read_varint(message, position, end)
        number, wire = key >> 3, key & 7
        begin = position
        if wire == VARINT:
            _, position = read_varint(message, position, end)
        elif wire == FIXED64:
            position += 8
        elif wire == FIXED32:
            position += 4
        elif wire == BYTES:
            length, begin = read_varint(message, position, end)
            position = begin + length
        else:
            raise ValueError(f"wire type {wire} at byte {begin} is not one of an event")
        if position > end or number == 0:
            raise ValueError(f"field {number} at byte {begin} reaches beyond its message")
        found.append((number, wire, begin, position))
    return found


def read_varint(message: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the varint at `position` and the position behind it.

    Raises:
        ValueError: it doesn't end before `end` or within ten bytes.
    """
    value = shift = 0
    while position < end and shift < 70:
        octet = message[position]
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, position
        shift += 7
    raise ValueError(f"the number before byte {position} has no end")


def _value(message: bytes, begin: int, end: int) -> Slot | None:
    """Return the slot of one Summary.Value; None for what is known not to be a scalar."""
    tag, plugin, slot = b"", b"", None
    for number, wire, start, stop in fields(message, begin, end):
        if number == 1 and wire == BYTES:
            tag = message[start:stop]
        elif number == 2 and wire == FIXED32:
            slot = (Kind.FLOAT, start)
        elif number == 8 and wire == BYTES:
            slot = _tensor(message, start, stop)
        elif number == 9 and wire == BYTES:
            plugin = _plugin(message, start, stop)
        elif number in PICTURE_FIELDS:
            return None
    if slot is None or plugin in NOT_SCALAR_PLUGINS:
        return None
    kind, position = slot if plugin in (b"", b"scalars") else (Kind.OTHER, -1)
    return Slot(tag, kind, position)


def _tensor(message: bytes, begin: int, end: int) -> tuple[Kind, int]:
    """Find the only number of a float32 or float64 TensorProto."""
    dtype, place, width = 0, -1, 0
    for number, wire, start, stop in fields(message, begin, end):
        if number == 1 and wire == VARINT:
            dtype, _ = read_varint(message, start, stop)
        elif number in (4, 5, 6):  # tensor_content, float_val, double_val
            if place >= 0:  # several values, written one by one
                return Kind.OTHER, -1
            place, width = start, stop - start
    for kind, code, size in ((Kind.FLOAT, 1, 4), (Kind.DOUBLE, 2, 8)):
        if (dtype, width) == (code, size) and place >= 0:
            return kind, place
    return Kind.OTHER, -1


def _plugin(message: bytes, begin: int, end: int) -> bytes:
    """Return SummaryMetadata.plugin_data.plugin_name."""
    for number, wire, start, stop in fields(message, begin, end):
        if number == 1 and wire == BYTES:
            for inner, inner_wire, inner_start, inner_stop in fields(message, start, stop):
                if inner == 1 and inner_wire == BYTES:
                    return message[inner_start:inner_stop]
    return b""
