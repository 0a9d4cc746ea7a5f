"""Train a sweep: python -m sweeps.run --sweep=sweeps/pendulum_grid.gin

A sweep is a gin file: an experiment, what varies, and the seeds; sweeps/ has examples and
docs/sweeps.md says how to write one. Each trial is an ordinary run folder. The same command again
does only what is missing.

Exit codes: 0 done, 2 the sweep can't be run, 3 a trial failed, 130 or 143 interrupted.
"""

import contextlib
import os
import re
import sys
from pathlib import Path

from absl import flags
from rich.console import Console

from acx.cli import run_command, stoppable
from acx.errors import ConfigError, Interrupted, RunError
from sweeps.display import LiveTable, counted, duration, header
from sweeps.folder import locked, save_plan
from sweeps.plan import Plan, load_plan
from sweeps.scheduler import Scheduler
from sweeps.summary import BEST, write_summary
from sweeps.tables import plan_table, print_results
from sweeps.workers import LocalWorkers, Workers

WIDTH_OF_FILES = 120  # rich takes 80, which folds the tables

FLAGS = flags.FlagValues()
SWEEP = flags.DEFINE_string("sweep", None, "Gin file of the sweep.", flag_values=FLAGS)
SWEEP_DIR = flags.DEFINE_string(
    "sweep_dir", None, "Folder of its runs. Default: runs/<sweep>.", flag_values=FLAGS
)
WORKERS = flags.DEFINE_integer(
    "workers",
    os.cpu_count() or 1,
    "Processes that train at a time.",
    lower_bound=1,
    flag_values=FLAGS,
)
BACKEND = flags.DEFINE_enum(
    "backend",
    "local",
    ["local", "ray", "slurm"],
    "Where the workers are: on this machine, on a Ray cluster, or on Slurm.",
    flag_values=FLAGS,
)
ADDRESS = flags.DEFINE_string(
    "address",
    None,
    "Of a running Ray cluster, or 'auto'. Default: one that lives for this sweep.",
    flag_values=FLAGS,
)
RAY = flags.DEFINE_multi_string(
    "ray",
    [],
    "What each worker takes of its node: 'num_cpus=2', 'num_gpus=0.5', or a resource of yours.",
    flag_values=FLAGS,
)
SLURM = flags.DEFINE_multi_string(
    "slurm",
    [],
    "A setting of Slurm jobs, in submitit's names: 'timeout_min=60', 'slurm_partition=cpu'.",
    flag_values=FLAGS,
)
DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print the trials and the estimated time; run none.", flag_values=FLAGS
)


def sweep() -> None:
    """Plan, train what is missing, sum up."""
    if SWEEP.value is None:
        raise ConfigError("name a sweep: --sweep=sweeps/pendulum_grid.gin")
    plan = load_plan(SWEEP.value)
    folder = Path(SWEEP_DIR.value or Path("runs", plan.name))
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_FILES)
    count = min(WORKERS.value, len(plan.trials))
    console.print(header(plan, str(folder), _place(count)))
    if DRY_RUN.value:
        _estimate(plan, folder, count, console)
        return
    with locked(folder) as lock:
        save_plan(folder, plan)
        scheduler = _train(plan, folder, count, lock, console)
        best = write_summary(folder, plan, scheduler.progress)
        print_results(console, plan, scheduler.progress, best)
    _print_next_steps(console, folder, best)
    failed = sum(progress.state == "failed" for progress in scheduler.progress.values())
    if failed:
        raise RunError(f"{failed} of {len(plan.trials)} trials failed: see {folder / 'trials.csv'}")


def _place(count: int) -> str:
    if BACKEND.value == "ray":
        return f"{count} on Ray, {ADDRESS.value or 'started for this sweep'}"
    return f"{count} jobs on Slurm" if BACKEND.value == "slurm" else f"{count} on this machine"


def options(flag: str, settings: list[str]) -> dict[str, int | float | str]:
    """{"timeout_min": 60} of ["timeout_min=60"].

    Raises:
      ConfigError: a setting isn't name=value.
    """
    pairs = [setting.partition("=") for setting in settings]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigError(f"--{flag}={name}{sign}{value} is not of the form name=value")
    return {name: _number_or_text(value) for name, _, value in pairs}


def _number_or_text(text: str) -> int | float | str:
    if text.isdigit():
        return int(text)
    return float(text) if re.fullmatch(r"\d*\.\d+|\d+(\.\d*)?e\d+", text) else text


def _workers(count: int, folder: Path, lock: int) -> Workers:
    if BACKEND.value == "ray":
        from sweeps.ray_workers import RayWorkers

        return RayWorkers(count, ADDRESS.value, options("ray", RAY.value))
    if BACKEND.value == "slurm":
        from sweeps.slurm_workers import SlurmWorkers

        return SlurmWorkers(count, folder / "slurm", options("slurm", SLURM.value))
    if ADDRESS.value is not None:
        raise ConfigError("--address goes with --backend=ray")
    return LocalWorkers(count, lock)


def _train(plan: Plan, folder: Path, count: int, lock: int, console: Console) -> Scheduler:
    """Train what is missing; ends with all workers gone, however it ends."""
    with contextlib.ExitStack() as stack:
        table = LiveTable(console)
        stack.callback(table.close)
        workers = _workers(count, folder, lock)
        scheduler = Scheduler(plan, folder, workers, table)
        scheduler.describe_finished()
        if scheduler.complete:
            workers.stop()
            return scheduler
        stack.callback(scheduler.settle)
        stack.callback(workers.stop)
        received = stack.enter_context(
            stoppable(scheduler, "letting the running trials save", console.print)
        )
        scheduler.check()
        if not scheduler.stop_requested:
            scheduler.run()
    if received:
        raise Interrupted(received[0], "stopped; the same command goes on from here")
    return scheduler


def _estimate(plan: Plan, folder: Path, count: int, console: Console) -> None:
    """Print the trials and how long those that are missing will take, from a short measurement."""
    with contextlib.ExitStack() as stack, open(os.devnull) as nothing:
        workers = _workers(1, folder, nothing.fileno())
        stack.callback(workers.stop)
        scheduler = Scheduler(plan, folder, workers, lambda _: None)
        console.print("", plan_table(plan, scheduler.progress), "")
        if scheduler.complete:
            console.print("nothing is missing")
            return
        with console.status("checking the points"):
            scheduler.check()
        with console.status("measuring the speed of the first"):
            measured = scheduler.measure()
        steps = scheduler.steps_missing()
        seconds = steps / measured["steps_per_second"] / count + measured["startup"]
        console.print(
            f"{steps:,.0f} steps to go at {measured['steps_per_second']:,.0f}/s a worker: "
            f"about [bold]{duration(seconds)}[/bold] with {counted(count, 'worker')}"
        )


def _print_next_steps(console: Console, folder: Path, best: str | None) -> None:
    python = os.path.relpath(sys.executable)
    commands = {"look at it": f"{python} -m tensorboard.main --logdir {folder}"}
    if best is not None:
        commands["train the best"] = f"{python} -m acx.main --gin_file={folder / BEST}"
    for what, command in commands.items():
        console.print(f"[dim]{what:<16}[/dim]{command}", soft_wrap=True, highlight=False)


def run() -> None:
    """The command."""
    run_command("sweeps.run", __doc__, FLAGS, sweep)


if __name__ == "__main__":
    run()
