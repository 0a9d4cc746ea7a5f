"""Observers that write a run down: TensorBoard, a CSV table, a status file. They only watch."""

import csv
import itertools
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import summary as layout_summary
from tensorboard.plugins.text import summary_v2 as text_summary

from acx.checkpoints import sync_folder
from acx.evaluation import EvaluationResult
from acx.reports import Report

CHARTS = {
    "Returns": {
        "training and evaluation": ["rollout/ep_rew_mean", "eval/mean_reward"],
        "episode length": ["rollout/ep_len_mean", "eval/mean_ep_length"],
    },
    "Actor": {
        "approximate KL": ["train/approx_kl"],
        "clip fraction": ["train/clip_fraction"],
        "entropy": ["train/entropy"],
        "gradient norm before the clip": ["train/grad_norm_actor"],
    },
    "Critic": {
        "loss": ["train/value_loss"],
        "explained variance": ["train/explained_variance"],
        "values and returns": ["train/value_mean", "train/return_mean"],
        "gradient norm before the clip": ["train/grad_norm_critic"],
    },
    "Speed": {"environment steps per second": ["time/fps"]},
}


def evaluation_scalars(result: EvaluationResult) -> dict[str, float]:
    """An evaluation by TensorBoard tag."""
    return {
        "eval/mean_reward": result.mean,
        "eval/std_reward": result.std,
        "eval/mean_ep_length": float(result.lengths.mean()),
    }


_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_numbers = itertools.count()  # tells the event files of one process apart


def _masked_crc(content: bytes) -> bytes:
    """A TFRecord's checksum: CRC32C, rotated and shifted (TensorFlow's record_writer.h)."""
    crc = google_crc32c.value(content)
    return _CHECKSUM.pack((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content: bytes) -> bytes:
    """A TFRecord: length and content, each with its checksum behind it."""
    length = _LENGTH.pack(len(content))
    return length + _masked_crc(length) + content + _masked_crc(content)


class TensorBoardWriter:
    """Writes scalars over environment steps, the configuration as text and a chart layout.

    Everything is on disk after each report: a crash loses at most one. TensorBoard's own writer
    takes a thread and checksums in Python for that, and ten times as long.

    Args:
      folder: the run's folder.
      config: the resolved configuration, for the TEXT tab.
      start_steps: where a resumed run goes on: what it logged after that is superseded.
    """

    def __init__(self, folder: Path, config: str, start_steps: int = 0) -> None:
        place = f"{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._path = folder / f"events.out.tfevents.{int(time.time()):010d}.{place}"
        self._file = open(self._path, "wb")  # noqa: SIM115
        self._write(Event(file_version="brain.Event:2"))
        if start_steps:
            started = SessionLog(status=SessionLog.START)
            self._write(Event(step=start_steps + 1, session_log=started))
        fenced = "\n".join(f"    {line}" for line in config.splitlines())
        self.write_text(0, "config/resolved_gin", fenced)
        self._write(Event(step=0, summary=_own(layout_summary.pb(_layout()))))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        try:
            self._file.write(record(event.SerializeToString()))
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def _write_scalars(self, step: int, scalars: dict[str, float]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(Event(step=step, summary=Summary(value=values)))

    def write_text(self, step: int, tag: str, markdown: str) -> None:
        """One text for the TEXT tab."""
        self._write(Event(step=step, summary=_own(text_summary.text_pb(tag, markdown))))

    def on_report(self, report: Report) -> None:
        """One event with all scalars of the iteration."""
        self._write_scalars(report.env_steps, report.scalars)

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """The evaluation under its own tags."""
        self._write_scalars(env_steps, evaluation_scalars(result))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _own(summary: Any) -> Summary:
    """TensorBoard's message, where its helpers return TensorFlow's because that is installed."""
    return Summary.FromString(summary.SerializeToString())


def _layout() -> layout_pb2.Layout:
    return layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category,
                chart=[
                    layout_pb2.Chart(
                        title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)
                    )
                    for title, tags in charts.items()
                ],
            )
            for category, charts in CHARTS.items()
        ]
    )


METRICS = "metrics.csv"


class CsvWriter:
    """`metrics.csv`: a row per report or evaluation, a column per tag, empty where not measured."""

    LATE = (  # tags that the first row may not have yet
        "rollout/ep_rew_mean",
        "rollout/ep_rew_min",
        "rollout/ep_rew_max",
        "rollout/ep_len_mean",
        "eval/mean_reward",
        "eval/std_reward",
        "eval/mean_ep_length",
    )

    def __init__(self, folder: Path, start_steps: int = 0) -> None:
        self.path = folder / METRICS
        columns: list[str] = []
        self._last: Mapping[str, object] = {}
        if self.path.exists():
            columns, self._last = _drop_later_rows(self.path, start_steps)
        self._open(columns)

    def _open(self, columns: Sequence[str]) -> None:
        self._file = open(self.path, "a", newline="", encoding="utf-8")  # noqa: SIM115
        self._table = csv.DictWriter(self._file, list(columns), restval="")

    def on_report(self, report: Report) -> None:
        """One row."""
        self._write({"step": report.env_steps, **report.scalars})

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """One row, but where it would repeat the last: a finished run that is resumed."""
        row = {"step": env_steps, **evaluation_scalars(result)}
        if _texts(row) != _texts(self._last):
            self._write(row)

    def _write(self, row: dict[str, float]) -> None:
        known = self._table.fieldnames
        columns = list(dict.fromkeys([*(known or ["step", *self.LATE]), *row]))
        if columns != known:
            self._file.close()
            _rewrite(self.path, columns, _read(self.path)[1])
            self._open(columns)
        self._table.writerow(row)
        self._file.flush()
        self._last = row

    def sync(self) -> None:
        """Wait until all rows are on the disk itself: a power failure takes none of them."""
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


Rows = list[dict[str, str]]


def _texts(row: Mapping[str, object]) -> dict[str, str]:
    """A row as the table holds it."""
    return {tag: str(value) for tag, value in row.items()}


def _read(path: Path) -> tuple[list[str], Rows]:
    """A table's columns and rows."""
    with open(path, newline="", encoding="utf-8") as file:
        table = csv.DictReader(file)
        return list(table.fieldnames or []), list(table)


def _rewrite(path: Path, columns: Sequence[str], rows: Rows) -> None:
    """Replace a table at once."""
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)


def _drop_later_rows(path: Path, start_steps: int) -> tuple[list[str], dict[str, str]]:
    """Forget rows past the checkpoint that a run resumes from.

    Returns:
      The table's columns, and what its last row holds.

    Where no row is left, as for a run that has no checkpoint yet, its columns go too.
    """
    columns, rows = _read(path)
    rows = [row for row in rows if row["step"] and int(row["step"]) <= start_steps]
    if not rows:
        path.unlink()
        return [], {}
    _rewrite(path, columns, rows)
    return columns, {tag: text for tag, text in rows[-1].items() if text}


STATUS = "status.json"


def read_status(folder: Path) -> dict[str, Any]:
    """A run's status file, or nothing where it can't be read."""
    try:
        status = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


class StatusWriter:
    """`status.json`: what the run is doing, replaced atomically, at most once a second.

    Args:
      folder: the run's folder.
      facts: what doesn't change: experiment, seed, total_steps and the like.
      start_steps: the environment steps that a resumed run has behind it.
    """

    def __init__(self, folder: Path, facts: dict[str, Any], start_steps: int = 0) -> None:
        self._path = folder / STATUS
        previous = read_status(folder)
        self._status = {**facts, "pid": os.getpid(), "started": time.time(), "exact": True}
        if start_steps:
            self._status |= {key: previous[key] for key in ("started", "exact") if key in previous}
        self._written = 0.0
        self.write(state="running", env_steps=start_steps, message="")

    def write(self, **changes: Any) -> None:
        """Change fields and replace the file."""
        self._status.update(changes, updated=time.time())
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._status, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, self._path)
        self._written = time.monotonic()

    def on_report(self, report: Report) -> None:
        """Note how far the run is."""
        self._status["env_steps"] = report.env_steps
        if time.monotonic() - self._written > 1.0:
            self.write()

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """Note the evaluation; a final one ends the run."""
        changes = {"env_steps": env_steps, "mean_reward": result.mean, "std_reward": result.std}
        self.write(**changes, **({"state": "finished"} if final else {}))

    def close(self) -> None:
        """Nothing to release."""
