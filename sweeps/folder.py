"""A sweep's folder: its plan, its table of trials, and below it one run folder for each trial."""

import contextlib
import csv
import fcntl
import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acx.errors import ConfigError
from sweeps.plan import Plan, Trial
from sweeps.values import spoken

PLAN, TABLE, LOCK, OUTPUT = "plan.json", "trials.csv", "sweep.lock", "output.txt"
SECONDS_TO_WAIT_FOR_LOCK = 15.0  # workers whose driver was killed save and leave


@dataclass
class Progress:
    """How far a trial is.

    Attributes:
      state: waiting, running, paused, finished or failed.
      env_steps: reached so far.
      mean_reward: of the final evaluation, as `std_reward`.
      std_reward: over its episodes.
      attempts: how often a worker began or went on with it.
      deaths: how often that was cut off, since the sweep was last started.
      exit_code: of the last attempt, as acx alone would have ended; 0 is done.
      seconds: of all attempts.
      message: why it failed.
    """

    state: str = "waiting"
    env_steps: int = 0
    mean_reward: float | None = None
    std_reward: float | None = None
    attempts: int = 0
    deaths: int = 0
    exit_code: int | None = None
    seconds: float = 0.0
    message: str = ""


def write_atomically(path: Path, text: str) -> None:
    """Replace a file; a kill at any moment leaves the old content or the new."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def status(run_folder: Path) -> dict[str, Any]:
    """A run's status file; empty where there is none yet."""
    try:
        return json.loads((run_folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def progress_on_disk(run_folder: Path) -> Progress:
    """What a run folder says of its trial, whoever wrote it, when no process works on it."""
    found = status(run_folder) if (run_folder / "config.gin").exists() else {}
    state = {"finished": "finished", "interrupted": "paused", "failed": "failed"}
    saved = sorted((run_folder / "checkpoints").glob("step-*.ckpt"))
    return Progress(
        state.get(found.get("state", ""), "waiting"),
        int(saved[-1].stem.removeprefix("step-")) if saved else 0,
        found.get("mean_reward"),
        found.get("std_reward"),
        message="" if found.get("state") == "interrupted" else str(found.get("message") or ""),
    )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the sweep's lock; yields the descriptor that workers inherit to hold it too.

    Raises:
      ConfigError: another process works on this sweep.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"can't use the sweep folder {folder}: {error.strerror}") from None
    with file:
        _wait_for_lock(file, folder)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file.fileno()


def _wait_for_lock(file: io.TextIOWrapper, folder: Path) -> None:
    """Wait only where the driver is gone and its workers are still saving."""
    deadline = time.monotonic() + SECONDS_TO_WAIT_FOR_LOCK
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            file.seek(0)
            driver = file.read().strip()
            if _alive(driver) or time.monotonic() > deadline:
                raise ConfigError(f"{folder} is in use by the sweep of process {driver}") from None
            time.sleep(0.1)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, OSError):
        return False
    return True


def save_plan(folder: Path, plan: Plan) -> None:
    """Write the plan down, unless the folder holds trials of something else.

    Points and seeds may be added or taken away; what all trials share may not change.

    Raises:
      ConfigError: the folder's trials were run with another base.
    """
    path = folder / PLAN
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))["base"] if path.exists() else plan.base
    except (OSError, ValueError, KeyError):
        raise ConfigError(
            f"{path} can't be read: remove {folder}, or name another --sweep_dir"
        ) from None
    names = dict.fromkeys([*saved, *plan.base])
    changes = [
        f"{name} = {saved.get(name, 'unset')} (now {plan.base.get(name, 'unset')})"
        for name in names
        if saved.get(name) != plan.base.get(name)
    ]
    if changes:
        raise ConfigError(
            f"the trials in {folder} were run with {'; '.join(changes)}. "
            "Name another --sweep_dir, or remove the folder"
        )
    content = {
        "sweep": plan.name,
        "experiment": plan.experiment,
        "base": plan.base,
        "stages": [asdict(stage) for stage in plan.stages],
        "trials": [{"trial": t.name, "bindings": list(t.bindings)} for t in plan.trials],
    }
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def save_table(folder: Path, trials: Sequence[Trial], progress: dict[str, Progress]) -> None:
    """Write `trials.csv`: one row for each trial."""
    buffer = io.StringIO()
    axes = list(trials[0].values)
    writer = csv.DictWriter(buffer, ["trial", "point", "seed", *axes, *asdict(Progress())])
    writer.writeheader()
    for trial in trials:
        row = asdict(progress[trial.name])
        row["seconds"] = round(row["seconds"], 1)
        values = {name: spoken(value) for name, value in trial.values.items()}
        writer.writerow(
            {"trial": trial.name, "point": trial.point, "seed": trial.seed, **values, **row}
        )
    write_atomically(folder / TABLE, buffer.getvalue())


def recall(folder: Path, progress: dict[str, Progress]) -> None:
    """Take attempts and times of earlier sessions from the table."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with open(folder / TABLE, newline="", encoding="utf-8") as file:
            rows = {row["trial"]: row for row in csv.DictReader(file)}
        for name in progress.keys() & rows.keys():
            if progress[name].state != "waiting" or progress[name].env_steps:
                progress[name].attempts = int(rows[name]["attempts"])
                progress[name].seconds = float(rows[name]["seconds"])
                code = rows[name]["exit_code"]
                progress[name].exit_code = int(code) if code else None


def training_return(run_folder: Path, env_steps: float) -> float:
    """The mean training return at `env_steps`: the last one written up to there; NaN if none."""
    found = float("nan")
    with contextlib.suppress(OSError), open(run_folder / "metrics.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row.get("rollout/ep_rew_mean") and float(row["step"]) <= env_steps:
                found = float(row["rollout/ep_rew_mean"])
    return found


def last_lines(run_folder: Path, count: int = 4) -> str:
    """The end of what a trial's process printed."""
    try:
        lines = (run_folder / OUTPUT).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line.strip() for line in lines if line.strip()][-count:])
