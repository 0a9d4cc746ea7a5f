"""TFRecord files in blocks of checked records; whatever damage they carry is skipped and reported.

A TFRecord is, in little-endian order, the payload's length as uint64, the masked CRC32C of these 8
bytes, the payload, and the masked CRC32C of the payload, with mask(c) = rotate_right(c, 15) +
0xa282ead8 (TensorFlow, tensorflow/core/lib/io/record_writer.h). A file of a million scalars holds a
million such records, so one Python loop only walks the lengths, and NumPy compares the checksums.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

HEADER = 12  # uint64 length and its checksum
FRAME = 16  # header and the payload's checksum
BLOCK = 8 << 20
STRIDE = 256  # records followed one by one before a repetition is looked for

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_MASK = 0xA282EAD8


@dataclass(frozen=True)
class Damage:
    """Bytes of an event file that hold no readable record.

    `offset` and `size` are in bytes; `reason` says what was found there, in words.
    """

    path: Path
    offset: int
    size: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.size:,} bytes lost at offset {self.offset:,}: {self.reason}"


class Block(NamedTuple):
    """Valid records in file order: payload i is `buffer[starts[i] : starts[i] + lengths[i]]`.

    `offset` is the file offset of the buffer's first byte.
    """

    offset: int
    buffer: bytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def masked_crc(content: bytes) -> int:
    """Return the masked CRC32C of `content`, as TFRecord stores it."""
    crc = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def read_blocks(path: Path, damages: list[Damage], block_size: int = BLOCK) -> Iterator[Block]:
    """Yield every readable record of a file, appending what can't be read to `damages`.

    Memory is bounded by `block_size` plus the largest record. After damage the search for the next
    valid record goes on byte by byte, so only the damaged records are lost.

    Raises:
        OSError: the file can't be opened or read.
    """
    with path.open("rb") as file:
        scan = _Scan(path, damages)
        while True:
            chunk = file.read(block_size)
            block = scan.feed(chunk)
            if len(block.starts):
                yield block
            if not chunk:
                return


class _Scan:
    """The state between two blocks: the unread rest, its file offset, and where damage began."""

    def __init__(self, path: Path, damages: list[Damage]) -> None:
        self._path = path
        self._damages = damages
        self._rest = b""
        self._offset = 0
        self._lost: tuple[int, str] | None = None  # file offset of the damage, reason

    def feed(self, chunk: bytes) -> Block:
        """Return the records that are complete with `chunk`; an empty chunk ends the file."""
        buffer, final = self._rest + chunk, not chunk
        found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        position = 0
        while True:
            if self._lost is not None:
                position, recovered = _find_record(buffer, position, final)
                if recovered or final:
                    self._report(self._offset + position)
                if not recovered:
                    break
            starts, lengths, position, reason = _walk(buffer, position, final)
            found.append((starts, lengths))
            if reason is None:
                break
            self._lost = (self._offset + position, reason)
            position = _after_damage(buffer, position)
        offset, self._offset = self._offset, self._offset + position
        self._rest = buffer[position:]
        return Block(
            offset,
            buffer,
            np.concatenate([starts for starts, _ in found] or [np.empty(0, np.int64)]),
            np.concatenate([lengths for _, lengths in found] or [np.empty(0, np.int64)]),
        )

    def _report(self, end: int) -> None:
        assert self._lost is not None
        begin, reason = self._lost
        self._damages.append(Damage(self._path, begin, end - begin, reason))
        self._lost = None


def _walk(
    buffer: bytes, position: int, final: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, str | None]:
    """Follow the lengths from `position` until a record is bad or incomplete.

    Returns payload starts and lengths, the position of the first record that isn't among them, and
    why that one is bad (None where it may only need more bytes).
    """
    edges = _edges(buffer, position)
    end = int(edges[-1])
    starts, lengths = edges[:-1] + HEADER, np.diff(edges) - FRAME
    bad = np.flatnonzero(~_payloads_match(buffer, starts, lengths))
    if len(bad):
        first = int(bad[0])
        position = int(edges[first])
        sound = _header_matches(buffer, position)
        reason = "the record's checksum is wrong" if sound else "the record's header is wrong"
        return starts[:first], lengths[:first], position, reason
    if end + HEADER <= len(buffer) and not _header_matches(buffer, end):
        return starts, lengths, end, "the record's header is wrong"
    unfinished = final and end < len(buffer)
    return starts, lengths, end, "the last record is incomplete" if unfinished else None


def _edges(buffer: bytes, position: int) -> NDArray[np.int64]:
    """Return where each record begins from `position` on, and where the last whole one ends."""
    parts, size, length_at = [], len(buffer), _LENGTH.unpack_from
    while True:
        begins: list[int] = []
        end, stop = position, False
        while len(begins) < STRIDE and not stop:
            following = end + FRAME + length_at(buffer, end)[0] if end + FRAME <= size else size + 1
            stop = following > size
            if not stop:
                begins.append(end)
                end = following
        parts.append(np.array(begins, np.int64))
        if stop:
            return np.concatenate([*parts, [end]])
        repeated = _repetitions(buffer, np.array([*begins, end], np.int64))
        parts.append(repeated[:-1])
        position = int(repeated[-1])


def _repetitions(buffer: bytes, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Go on from the last edge as long as the lengths of the records before it repeat.

    A writer logs the same tags again and again, so that lengths have a period; whether they keep
    it is read at all expected places at once.
    """
    sizes = np.diff(edges)
    period = next((n for n in range(1, STRIDE // 2) if (sizes[n:] == sizes[:-n]).all()), None)
    last = int(edges[-1])
    if period is None:
        return edges[-1:]
    cycle = sizes[-period:]
    rounds = (len(buffer) - last - 8) // int(cycle.sum())
    if rounds < 1:
        return edges[-1:]
    expected = np.tile(cycle, rounds)
    begins = last + np.concatenate([[0], np.cumsum(expected)])
    words = np.frombuffer(buffer, np.uint8)[begins[:-1, None] + np.arange(8)]
    lengths = np.ascontiguousarray(words).view("<u8")[:, 0]
    kept = lengths == (expected - FRAME).astype(np.uint64)
    count = len(kept) if kept.all() else int(kept.argmin())
    return begins[: count + 1]


def _payloads_match(
    buffer: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Compare every payload with the checksum behind it: one bool per record."""
    crc, ends = google_crc32c.value, starts + lengths
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    actual = np.array([crc(buffer[start:end]) for start, end in pairs], np.uint32)
    words = np.frombuffer(buffer, np.uint8)[ends[:, None] + np.arange(4)]
    stored = np.ascontiguousarray(words).view("<u4")[:, 0] - np.uint32(_MASK)
    matches: NDArray[np.bool_] = actual == (stored << np.uint32(15) | stored >> np.uint32(17))
    return matches


def _header_matches(buffer: bytes, position: int) -> bool:
    stored = _CHECKSUM.unpack_from(buffer, position + 8)[0]
    return masked_crc(buffer[position : position + 8]) == stored


def _after_damage(buffer: bytes, position: int) -> int:
    """Return where the search for the next record starts: behind the bad one if its end is known.

    A sound header gives the end, and a sound header there proves it (bytes may be missing).
    """
    if position + HEADER <= len(buffer) and _header_matches(buffer, position):
        end = position + FRAME + _LENGTH.unpack_from(buffer, position)[0]
        if end == len(buffer) or (end + HEADER <= len(buffer) and _header_matches(buffer, end)):
            return end
    return position + 1


def _find_record(buffer: bytes, position: int, final: bool) -> tuple[int, bool]:
    """Search from `position` for a whole valid record; return its place, or where to go on.

    A record that reaches beyond the buffer counts when its header is sound and the file goes on.
    An end of the file exactly at `position` counts too: nothing is left to lose.
    """
    if position == len(buffer):
        return position, final
    while position + HEADER <= len(buffer):
        stop = min(position + (1 << 16), len(buffer) - HEADER + 1)
        for candidate in _headers(buffer, position, stop):
            end = candidate + FRAME + _LENGTH.unpack_from(buffer, candidate)[0]
            if end > len(buffer):
                if not final:
                    return candidate, True
            elif _CHECKSUM.unpack_from(buffer, end - 4)[0] == masked_crc(
                buffer[candidate + HEADER : end - 4]
            ):
                return candidate, True
        position = stop
    return (len(buffer) if final else position), False


def _headers(buffer: bytes, begin: int, end: int) -> list[int]:
    """Return the positions in [begin, end) whose 8 bytes match the checksum behind them."""
    octets = np.frombuffer(buffer, np.uint8, end - begin + HEADER - 1, begin)
    count = end - begin
    crc = np.full(count, 0xFFFFFFFF, np.uint32)
    for column in range(8):
        crc = _TABLE[(crc ^ octets[column : column + count]) & 0xFF] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK)
    stored = np.zeros(count, np.uint32)
    for column in range(4):
        stored |= octets[8 + column : 8 + column + count].astype(np.uint32) << np.uint32(8 * column)
    return [begin + int(index) for index in np.flatnonzero(masked == stored)]


def _crc_table() -> NDArray[np.uint32]:
    """Return the 256 steps of the Castagnoli polynomial, bit-reversed (RFC 3720, appendix B.4)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table.astype(np.uint32)


_TABLE = _crc_table()
