"""A run is a folder: configuration, event file, table, status and checkpoints of one training."""

import os
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from rich.console import Console

from acx import __version__, checkpoints, config
from acx.errors import ConfigError, RunError
from acx.evaluation import EvaluationResult
from acx.experiment import Experiment, Observer
from acx.observers import CsvWriter, StatusWriter, TensorBoardWriter
from acx.progress import ProgressLine, describe

CONFIG = "config.gin"
CHECKPOINT = "checkpoints/final.ckpt"


def build(gin_files: list[str], bindings: list[str]) -> Experiment:
    """The experiment that gin files and bindings describe, built and checked.

    Raises:
      ConfigError: the configuration can't be run. RunError: the environment misbehaves.
    """
    found = config.load(gin_files, bindings)
    experiment = config.build(Experiment, found)
    try:
        experiment.build()
    except ConfigError as error:
        raise config.located(error, found) from None
    return experiment


def new_folder(name: str, seed: int, run_dir: str | None) -> Path:
    """Create the run's folder.

    Raises:
      ConfigError: it holds a run already, or can't be created.
    """
    time = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = Path(run_dir) if run_dir else Path("runs", name, f"{time}-seed{seed}")
    if (folder / CONFIG).exists():
        raise ConfigError(f"{folder} holds a run already: name another --run_dir")
    try:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"can't create {folder}: {error.strerror}") from None
    return folder


def train(
    name: str,
    gin_files: list[str],
    bindings: list[str],
    run_dir: str | None,
    console: Console,
    device: str,
) -> EvaluationResult:
    """Train as the gin files say, in a new run folder.

    Raises:
      ConfigError: the configuration can't be run; no folder was made.
      RunError: the run had to stop; its folder says why.
    """
    experiment = build(gin_files, bindings)
    resolved = config.resolved()
    folder = new_folder(name, experiment.seed, run_dir)
    (folder / CONFIG).write_text(resolved, encoding="utf-8")
    console.print(describe(experiment, name, str(folder), device))
    status = StatusWriter(
        folder,
        {
            "experiment": name,
            "env_id": experiment.environment.env_id,
            "seed": experiment.seed,
            "total_steps": experiment.total_steps,
            "acx": __version__,
        },
    )
    progress = ProgressLine(console, experiment.total_steps)
    with ExitStack() as stack:
        observers: list[Observer] = [
            TensorBoardWriter(folder, resolved),
            CsvWriter(folder),
            progress,
            status,
        ]
        for observer in observers:
            stack.callback(observer.close)
        try:
            result = experiment.run(observers)
            checkpoints.save(folder / CHECKPOINT, experiment.policy_state())
        except (RunError, KeyboardInterrupt) as error:
            state = "failed" if isinstance(error, RunError) else "interrupted"
            status.write(state=state, message=str(error))
            raise
    console.print(f"[dim]compare runs[/dim]  {tensorboard_command(folder)}", soft_wrap=True)
    console.print(
        f"[dim]watch it[/dim]      python -m acx.play --run_dir={folder} --render", soft_wrap=True
    )
    return result


def tensorboard_command(folder: Path) -> str:
    """The command that opens TensorBoard on the run and its neighbors."""
    return f"{os.path.relpath(sys.executable)} -m tensorboard.main --logdir {folder.parent}"


def restore(run_dir: str) -> Experiment:
    """A trained experiment, ready to act, from its run folder.

    Raises:
      ConfigError: there is no trained agent in the folder.
      RunError: its checkpoint is damaged.
    """
    folder = Path(run_dir)
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} is not a run folder: it has no {CONFIG}")
    if not (folder / CHECKPOINT).is_file():
        raise ConfigError(f"{folder} has no trained agent yet: {CHECKPOINT} is missing")
    experiment = build([str(folder / CONFIG)], [])
    experiment.load_policy_state(checkpoints.load(folder / CHECKPOINT))
    return experiment
