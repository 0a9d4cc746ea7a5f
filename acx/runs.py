"""A run is a folder: configuration, event file, table, status and checkpoints of one training."""

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from acx import __version__, config
from acx.checkpoints import SUFFIX, CheckpointFolder, load, sync_folder
from acx.cli import stoppable
from acx.errors import ConfigError, Interrupted, RunError
from acx.evaluation import EvaluationResult
from acx.experiment import Experiment, Stopped
from acx.health.context import context_of
from acx.health.examination import Examination
from acx.health.observer import HealthObserver
from acx.imports import identity, refuse_unknown_imports
from acx.observers import CsvWriter, StatusWriter, TensorBoardWriter, read_status
from acx.programs import ProgramCache
from acx.progress import ProgressLine, describe
from acx.reports import Observer
from acx.states import State
from acx.structure import described, refuse_misfit

CONFIG, CHECKPOINTS, LOCK = "config.gin", "checkpoints", "run.lock"


def _nobody(experiment: Experiment) -> Sequence[Observer]:
    return ()


@dataclass
class Session:
    """What a process that trains one run after the other keeps and adds.

    Args:
      programs: compiled programs, for runs of the same structure.
      watchers: further observers of an experiment that is about to run.
    """

    programs: ProgramCache = field(default_factory=ProgramCache)
    watchers: Callable[[Experiment], Sequence[Observer]] = _nobody


@dataclass(frozen=True)
class Prepared:
    """An experiment that can start, the configuration it came from, its name and watchers."""

    experiment: Experiment
    resolved: str
    name: str
    watchers: Sequence[Observer]


def build(
    gin_files: Sequence[str], bindings: Sequence[str] = (), programs: ProgramCache | None = None
) -> Experiment:
    """The experiment that gin files and bindings describe, built and checked.

    Args:
      gin_files: later ones override earlier ones.
      bindings: override all files.
      programs: where compiled programs are taken from and kept.

    Raises:
      ConfigError: the configuration can't be run. RunError: the environment misbehaves.
    """
    found = config.load(gin_files, bindings)
    experiment = config.build(Experiment, found)
    try:
        (programs or ProgramCache()).build(experiment, config.resolved())
    except ConfigError as error:
        raise config.located(error, found) from None
    return experiment


def start(
    gin_files: Sequence[str],
    bindings: Sequence[str],
    run_dir: str | None,
    console: Console,
    device: str,
    session: Session | None = None,
) -> EvaluationResult:
    """Train as the gin files say, in a new run folder.

    Raises:
      ConfigError: the configuration can't be run, or the folder holds a run; none was made.
      RunError, Interrupted: the run had to stop; its folder says why.
    """
    name, session = Path(gin_files[-1]).stem, session or Session()
    experiment = build(gin_files, bindings, session.programs)
    prepared = Prepared(experiment, config.resolved(), name, session.watchers(experiment))
    folder = _new_folder(prepared, run_dir)
    with _failing_clearly(folder):
        return _train(prepared, folder, console, device, None)


def _write_config(folder: Path, resolved: str) -> None:
    """Where it is new, and atomically: a truncated configuration would be another experiment's."""
    file = folder / CONFIG
    if file.exists() and file.read_text(encoding="utf-8") == resolved:
        return
    temporary = folder / f".{CONFIG}.tmp"
    with open(temporary, "w", encoding="utf-8") as written:
        written.write(resolved)
        written.flush()
        os.fsync(written.fileno())
    os.replace(temporary, file)
    sync_folder(folder)


def resume(
    run_dir: str,
    bindings: Sequence[str],
    allow_changes: bool,
    console: Console,
    device: str,
    session: Session | None = None,
    allow_imports: bool = False,
) -> EvaluationResult:
    """Continue a run from its newest whole checkpoint, or from the start where it has none yet.

    Args:
      run_dir: the run's folder, whose config.gin is used.
      bindings: what is to be different from now on, such as a larger budget.
      allow_changes: False refuses any difference to the saved configuration.
      console: for messages.
      device: in words.
      session: of a process that trains several runs.
      allow_imports: let a configuration from elsewhere import any module.

    Raises:
      ConfigError: it is no run folder, or its configuration differs, imports what it may not, or no
        longer fits its checkpoint; nothing was changed.
      RunError, Interrupted: as for `start`.
    """
    folder, session = existing_folder(run_dir, allow_imports), session or Session()
    saved = (folder / CONFIG).read_text(encoding="utf-8")
    experiment = build([str(folder / CONFIG)], bindings, session.programs)
    resolved = config.resolved()
    changes = config.differences(saved, resolved)
    if changes and not allow_changes:
        listed = "; ".join(changes)
        raise ConfigError(f"{folder} was run with {listed}. --allow_changes resumes all the same")
    name = str(read_status(folder).get("experiment", folder.parent.name))
    checkpoint = CheckpointFolder(folder / CHECKPOINTS).newest(
        lambda text: console.print(f"[yellow]{text}[/yellow]", soft_wrap=True)
    )
    if checkpoint is not None:
        refuse_misfit(run_dir, checkpoint[1], experiment, changes)
    prepared = Prepared(experiment, resolved, name, session.watchers(experiment))
    if checkpoint is None:
        console.print(
            f"[yellow]{folder} was stopped before its first checkpoint: it starts again from step "
            "0, and what it logged is replaced[/yellow]",
            soft_wrap=True,
        )
    with _failing_clearly(folder):
        return _train(prepared, folder, console, device, checkpoint)


def restore(
    run_dir: str, console: Console, best: bool = False, allow_imports: bool = False
) -> Experiment:
    """A trained experiment, ready to act, from its run folder.

    Args:
      run_dir: the run's folder.
      console: for messages.
      best: take the checkpoint of the best evaluation during training, not the newest.
      allow_imports: let a configuration from elsewhere import any module.

    Raises:
      ConfigError: there is no such checkpoint, or the configuration imports what it may not.
      RunError: the checkpoints are damaged.
    """
    folder = existing_folder(run_dir, allow_imports)
    checkpoints = CheckpointFolder(folder / CHECKPOINTS)
    if best and not checkpoints.best.exists():
        raise ConfigError(
            f"{folder} has no best checkpoint: no evaluation took place (Evaluation.every)"
        )
    newest = (0, load(checkpoints.best)) if best else checkpoints.newest(console.print)
    if newest is None:
        raise ConfigError(f"{folder} has no checkpoint yet")
    experiment = build([str(folder / CONFIG)])
    refuse_misfit(run_dir, newest[1], experiment)
    experiment.load_training_state(newest[1])
    return experiment


def existing_folder(run_dir: str, allow_imports: bool) -> Path:
    """The folder of a run, made sure to be one whose configuration may be loaded.

    Raises:
      ConfigError: it is no run folder, or its configuration imports what it may not.
    """
    folder = Path(run_dir)
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder} is not a run folder: it has no {CONFIG}")
    if not allow_imports:
        noted = read_status(folder).get("config_identity")
        refuse_unknown_imports(folder / CONFIG, config.scan([str(folder / CONFIG)]), noted)
    return folder


def _new_folder(prepared: Prepared, run_dir: str | None) -> Path:
    time = datetime.now().strftime("%Y%m%d-%H%M%S")
    seed = prepared.experiment.seed
    folder = Path(run_dir) if run_dir else Path("runs", prepared.name, f"{time}-seed{seed}")
    if (folder / CONFIG).exists() or any((folder / CHECKPOINTS).glob(f"*{SUFFIX}")):
        raise ConfigError(
            f"{folder} holds a run already: continue it with --resume, or name another --run_dir"
        )
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"can't create {folder}: {error.strerror}") from None
    return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the run's lock; the system frees it when the process dies, however it dies."""
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise ConfigError(f"{folder} is in use by process {file.read().strip()}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _train(
    prepared: Prepared,
    folder: Path,
    console: Console,
    device: str,
    checkpoint: tuple[int, State] | None,
) -> EvaluationResult:
    experiment = prepared.experiment
    start_steps, state = checkpoint or (0, None)
    resume_command = f"acx --run_dir={folder} --resume"
    with ExitStack() as stack:
        stack.enter_context(_locked(folder))
        _write_config(folder, prepared.resolved)
        checkpoints = CheckpointFolder(folder / CHECKPOINTS)
        checkpoints.clean()
        console.print(describe(experiment, prepared.name, str(folder), device))
        if checkpoint is not None:
            console.print(f"resuming after {start_steps:,} steps")
        else:
            for events in folder.glob("events.out.tfevents.*"):  # it starts again from step 0
                events.unlink()
        facts = _facts(prepared) | {"config_identity": identity(folder / CONFIG)}
        status, table = StatusWriter(folder, facts, start_steps), CsvWriter(folder, start_steps)
        events_file = TensorBoardWriter(folder, prepared.resolved, start_steps)
        examination = Examination(context_of(experiment, prepared.resolved))
        health = HealthObserver(folder, examination, console, events_file.write_text, start_steps)
        observers: list[Observer] = [
            events_file,
            table,
            health,
            ProgressLine(console, experiment.total_steps),
            *prepared.watchers,
            status,
        ]
        for observer in observers:
            stack.callback(_close, observer)
        received = stack.enter_context(
            stoppable(experiment, "\nfinishing the iteration and saving", console.print)
        )

        def save(env_steps: int, state: State) -> None:
            table.sync()  # after a power failure, what a checkpoint goes on from is there
            checkpoints.save(env_steps, described(state, experiment))

        try:
            result = experiment.run(
                observers,
                save,
                state,
                lambda state: checkpoints.save_best(described(state, experiment)),
                lambda text: console.print(f"[yellow]{text}[/yellow]", soft_wrap=True),
            )
        except (Stopped, KeyboardInterrupt):
            status.write(state="interrupted", message=f"resume with {resume_command}")
            signum = received[0] if received else signal.SIGINT
            raise Interrupted(signum, f"stopped; resume with {resume_command}") from None
        except RunError as error:
            _fail(status, str(error), health)
            raise
        except Exception as error:
            _fail(status, f"{type(error).__name__}: {error}", health)
            raise
        health.show()
        if not experiment.resumed_exactly:
            status.write(exact=False)
            console.print(
                "[yellow]resumed, but not exactly: the environment's open episodes could not be "
                "continued, so new ones were started[/yellow]",
                soft_wrap=True,
            )
    _print_next_steps(console, folder)
    return result


@contextlib.contextmanager
def _failing_clearly(folder: Path) -> Iterator[None]:
    """Say in one line what could not be written, and how to go on."""
    try:
        yield
    except OSError as error:
        started = (folder / CONFIG).exists()
        go_on = f"acx --run_dir={folder} --resume" if started else "start it again"
        raise RunError(
            f"can't write {error.filename or folder}: {error.strerror or error}. What was saved "
            f"is intact; when the cause is gone: {go_on}"
        ) from None


def _fail(status: StatusWriter, message: str, health: HealthObserver) -> None:
    with contextlib.suppress(OSError):  # the reason may be that nothing can be written
        status.write(state="failed", message=message)
        health.failed(message)


def _close(observer: Observer) -> None:
    with contextlib.suppress(OSError):  # as above; what is lost has been reported
        observer.close()


def _facts(prepared: Prepared) -> dict[str, Any]:
    experiment = prepared.experiment
    return {
        "experiment": prepared.name,
        "env_id": experiment.environment.env_id,
        "seed": experiment.seed,
        "total_steps": experiment.total_steps,
        "acx": __version__,
    }


def _print_next_steps(console: Console, folder: Path) -> None:
    python = os.path.relpath(sys.executable)
    for what, command in (
        ("compare runs", f"{python} -m tensorboard.main --logdir {folder.parent}"),
        ("watch it", f"{python} -m acx.play --run_dir={folder} --render"),
    ):
        console.print(
            f"[bold cyan]{what:<12}[/bold cyan]  {command}", soft_wrap=True, highlight=False
        )
