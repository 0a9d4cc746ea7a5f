"""What TensorBoard's HPARAMS tab needs: hyperparameters, states, and which columns come first.

Each is a small event file of its own, so that a run itself knows nothing of sweeps. Seeds of one
point share a group, which the tab averages into one row.
"""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

from sweeps.axes import Column

METRICS = {"eval/mean_reward": "evaluation return", "rollout/ep_rew_mean": "training return"}


def write_experiment(
    sweep_folder: Path, run_folder: Path, columns: Mapping[str, Sequence[Column]]
) -> None:
    """Tell once, in the folder of a run that is over, what varies and what is compared.

    In a folder without a run it would be listed as one more run.
    """
    for outdated in sweep_folder.glob("*/*/events.out.tfevents.*.experiment"):
        outdated.unlink()
    hyperparameters = [
        api_pb2.HParamInfo(
            name=name,
            type=_data_type(values),
            domain_discrete=ListValue(values=[_value(v) for v in dict.fromkeys(values)]),
        )
        for name, values in columns.items()
    ]
    metrics = [
        api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=title)
        for tag, title in METRICS.items()
    ]
    experiment = api_pb2.Experiment(
        hparam_infos=hyperparameters, metric_infos=metrics, time_created_secs=time.time()
    )
    _write(
        run_folder,
        metadata.EXPERIMENT_TAG,
        plugin_data_pb2.HParamsPluginData(experiment=experiment),
    )


def write_start(folder: Path, group: str, values: Mapping[str, Column]) -> None:
    """Say which hyperparameters a run has; runs of one `group` become one row."""
    start = plugin_data_pb2.SessionStartInfo(group_name=group, start_time_secs=time.time())
    for name, value in values.items():
        start.hparams[name].CopyFrom(_value(value))
    _write(
        folder,
        metadata.SESSION_START_INFO_TAG,
        plugin_data_pb2.HParamsPluginData(session_start_info=start),
    )


def has_start(folder: Path) -> bool:
    """Whether `write_start` was called for a run before."""
    return any(folder.glob("events.out.tfevents.*.session_start_info"))


def write_end(folder: Path, succeeded: bool) -> None:
    """Say how a run ended."""
    status = api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
    _write(
        folder,
        metadata.SESSION_END_INFO_TAG,
        plugin_data_pb2.HParamsPluginData(session_end_info=end),
    )


def has_end(folder: Path) -> bool:
    """Whether `write_end` was called for a run before."""
    return any(folder.glob("events.out.tfevents.*.session_end_info"))


def _data_type(values: Sequence[Column]) -> int:
    if isinstance(values[0], bool):
        return api_pb2.DATA_TYPE_BOOL
    return api_pb2.DATA_TYPE_STRING if isinstance(values[0], str) else api_pb2.DATA_TYPE_FLOAT64


def _value(value: Column) -> Value:
    if isinstance(value, bool):
        return Value(bool_value=value)
    return Value(string_value=value) if isinstance(value, str) else Value(number_value=value)


def _write(folder: Path, tag: str, content: plugin_data_pb2.HParamsPluginData) -> None:
    value = Summary.Value(
        tag=tag, metadata=metadata.create_summary_metadata(content), tensor=metadata.NULL_TENSOR
    )
    # TensorBoard's own writer would load TensorFlow, for seconds, to create a folder.
    kind = tag.rpartition("/")[2]
    name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{kind}"
    with open(folder / name, "wb") as file:
        writer = RecordWriter(file)
        for event in (
            Event(wall_time=time.time(), file_version="brain.Event:2"),
            Event(wall_time=time.time(), summary=Summary(value=[value])),
        ):
            writer.write(event.SerializeToString())
