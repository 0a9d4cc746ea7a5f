"""Trains healthy, sick and cured experiments one after the other in one warm process."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from acx import runs
from acx.errors import Interrupted, RunError
from acx.experiment import Experiment
from acx.observers import read_status
from sweeps.training import PauseAt


def train(
    session: runs.Session,
    device: str,
    folder: Path,
    base: str,
    bindings: Sequence[str],
    seed: int,
    share: float = 1.0,
) -> dict[str, object]:
    """Train a share of the budget, unless the folder has it already; returns the run's status.

    Schedules and the like see the whole budget; the run is stopped after `share` of it.
    """
    status = read_status(folder)
    if status.get("state") in ("finished", "interrupted", "failed"):
        return status
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def watchers(experiment: Experiment) -> list[PauseAt]:
        return [PauseAt(experiment, share * experiment.total_steps)] if share < 1 else []

    session.watchers = watchers
    with open(folder / "output.txt", "a", encoding="utf-8") as file:
        console = Console(file=file, width=100)
        try:
            runs.start(
                [f"experiments/{base}.gin"],
                [*bindings, f"seed = {seed}", "Experiment.checkpoint_seconds = 100000.0"],
                str(folder),
                console,
                device,
                session,
            )
        except (Interrupted, RunError) as error:
            console.print(str(error))
    return read_status(folder)
