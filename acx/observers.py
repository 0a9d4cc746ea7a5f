"""Observers that write a run down: TensorBoard, a CSV table, a status file. They only watch."""

import csv
import json
import os
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import summary as layout_summary
from tensorboard.plugins.text import summary_v2 as text_summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from acx.evaluation import EvaluationResult
from acx.experiment import Report

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


class TensorBoardWriter:
    """Writes scalars over environment steps, the configuration as text and a chart layout.

    Everything is on disk after each report: a crash loses at most one.

    Args:
      folder: the run's folder.
      config: the resolved configuration, for the TEXT tab.
    """

    def __init__(self, folder: Path, config: str) -> None:
        self._writer = EventFileWriter(str(folder))
        fenced = "\n".join(f"    {line}" for line in config.splitlines())
        self._write(0, text_summary.text_pb("config/resolved_gin", fenced))
        self._write(0, layout_summary.pb(_layout()))
        self._writer.flush()

    def _write(self, step: int, summary: Any) -> None:
        # With TensorFlow installed, TensorBoard's helpers return TensorFlow's message class.
        own = Summary.FromString(summary.SerializeToString())
        self._writer.add_event(Event(step=step, wall_time=time.time(), summary=own))

    def _write_scalars(self, step: int, scalars: dict[str, float]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(step, Summary(value=values))
        self._writer.flush()

    def on_report(self, report: Report) -> None:
        """One event with all scalars of the iteration."""
        self._write_scalars(report.env_steps, report.scalars)

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """The evaluation under its own tags."""
        self._write_scalars(env_steps, evaluation_scalars(result))

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()


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

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / "metrics.csv", "a", newline="", encoding="utf-8")  # noqa: SIM115
        self._table: csv.DictWriter[str] | None = None

    def _write(self, step: int, scalars: dict[str, float]) -> None:
        if self._table is None:
            columns = dict.fromkeys(["step", *self.LATE, *scalars])
            self._table = csv.DictWriter(self._file, list(columns), extrasaction="ignore")
            self._table.writeheader()
        self._table.writerow({"step": step, **scalars})
        self._file.flush()

    def on_report(self, report: Report) -> None:
        """One row."""
        self._write(report.env_steps, report.scalars)

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """One row."""
        self._write(env_steps, evaluation_scalars(result))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StatusWriter:
    """`status.json`: what the run is doing, replaced atomically, at most once a second.

    Args:
      folder: the run's folder.
      facts: what doesn't change: experiment, seed, total_steps and the like.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self._path = folder / "status.json"
        self._status = {**facts, "pid": os.getpid(), "started": time.time()}
        self._written = 0.0
        self.write(state="running", env_steps=0, message="")

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
