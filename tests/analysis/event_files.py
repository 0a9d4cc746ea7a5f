"""Event files written byte by byte, as the writers in use write them."""

import struct
from collections.abc import Iterable
from pathlib import Path

import google_crc32c
from tensorboard.compat.proto import event_pb2, summary_pb2, types_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

Event = event_pb2.Event


def masked(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def write(path: Path, events: Iterable[event_pb2.Event]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    version = Event(wall_time=1.0, file_version="brain.Event:2")
    path.write_bytes(b"".join(record(event.SerializeToString()) for event in (version, *events)))
    return path


def simple(tag: str, step: int, value: float, wall_time: float | None = None) -> event_pb2.Event:
    """What SB3, CleanRL, PyTorch and TensorFlow 1 write."""
    event = Event(wall_time=1e9 + step if wall_time is None else wall_time, step=step)
    event.summary.value.add(tag=tag, simple_value=value)
    return event


def tensor(
    tag: str, step: int, value: float, dtype: str = "DT_FLOAT", content: bytes | None = None
) -> event_pb2.Event:
    """What TensorFlow 2 writes: a tensor of rank 0 for the plugin "scalars"."""
    event = Event(wall_time=1e9 + step, step=step)
    entry = event.summary.value.add(tag=tag)
    entry.metadata.plugin_data.plugin_name = "scalars"
    entry.tensor.dtype = types_pb2.DataType.Value(dtype)
    entry.tensor.tensor_shape.SetInParent()
    if content is not None:
        entry.tensor.tensor_content = content
    elif dtype == "DT_DOUBLE":
        entry.tensor.double_val.append(value)
    elif dtype == "DT_INT64":
        entry.tensor.int64_val.append(int(value))
    else:
        entry.tensor.float_val.append(value)
    return event


def packed(step: int, values: dict[str, float]) -> event_pb2.Event:
    """Many tags in one event, as acx writes them."""
    event = Event(wall_time=1e9 + step, step=step)
    for tag, value in values.items():
        event.summary.value.add(tag=tag, simple_value=value)
    return event


def text(tag: str, content: str) -> event_pb2.Event:
    event = Event(wall_time=1e9, step=0)
    entry = event.summary.value.add(tag=tag)
    entry.metadata.plugin_data.plugin_name = "text"
    entry.tensor.dtype = types_pb2.DT_STRING
    entry.tensor.string_val.append(content.encode())
    return event


def histogram(tag: str, step: int, size: int) -> event_pb2.Event:
    event = Event(wall_time=1e9 + step, step=step)
    histo = summary_pb2.HistogramProto(num=size, bucket=[float(step)] * size)
    event.summary.value.add(tag=tag, histo=histo)
    return event


def hparams(values: dict[str, float | str]) -> event_pb2.Event:
    """What the HParams plugin stores when a session starts."""
    start = plugin_data_pb2.SessionStartInfo()
    for name, value in values.items():
        if isinstance(value, str):
            start.hparams[name].string_value = value
        else:
            start.hparams[name].number_value = value
    content = plugin_data_pb2.HParamsPluginData(session_start_info=start)
    event = Event(wall_time=1e9)
    entry = event.summary.value.add(tag="_hparams_/session_start_info")
    entry.metadata.plugin_data.plugin_name = "hparams"
    entry.metadata.plugin_data.content = content.SerializeToString()
    entry.tensor.dtype = types_pb2.DT_FLOAT
    return event
