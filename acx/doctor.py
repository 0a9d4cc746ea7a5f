"""Examine an experiment before training, or a run, and say what to change.

python -m acx.doctor --gin_file=experiments/pendulum.gin
python -m acx.doctor --run_dir=runs/pendulum/20261201-152745-seed0

The first takes random steps in the environment and checks the configuration; nothing is trained.
The second reads what a finished or running run has written. Each finding says what is seen, why it
matters and what to type. Findings are no failure: the exit code is 0, or 2 where the configuration
can't be run. docs/doctor.md lists what is looked for.
"""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from absl import flags
from rich.table import Table

from acx import config
from acx.cli import LastingConsole, allow_imports_flag, run_command
from acx.errors import ConfigError, RunError

if TYPE_CHECKING:
    from acx.health.checkup import Played
    from acx.health.context import Context
    from acx.health.findings import Finding

FLAGS = flags.FlagValues()
GIN_FILE = flags.DEFINE_multi_string(
    "gin_file",
    [],
    "Gin file of an experiment to examine before training. Repeat to add files.",
    flag_values=FLAGS,
)
GIN_BINDINGS = flags.DEFINE_multi_string(
    "gin_bindings", [], "Override one value, such as 'gamma = 0.95'. Repeatable.", flag_values=FLAGS
)
RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Folder of a run to examine, finished or running.", flag_values=FLAGS
)
STEPS = flags.DEFINE_integer(
    "steps", 3000, "Random steps in the environment.", lower_bound=1, flag_values=FLAGS
)
ALLOW_IMPORTS = allow_imports_flag(FLAGS)


def doctor() -> None:
    """Examine what the flags name."""
    files, bindings, run_dir = list(GIN_FILE.value), list(GIN_BINDINGS.value), RUN_DIR.value
    if bool(files) == bool(run_dir):
        raise ConfigError(
            "name either an experiment, --gin_file=experiments/pendulum.gin, or a run, "
            "--run_dir=runs/pendulum/..."
        )
    if run_dir and bindings:
        raise ConfigError("--run_dir examines the run as it was: it takes no --gin_bindings")
    config.scan(files, bindings)  # typing errors first: TensorFlow takes seconds to load
    console = LastingConsole()
    with console.status("loading TensorFlow") if console.is_interactive else nullcontext():
        from acx.runtime import load_tensorflow

        load_tensorflow()
        from acx.health import display
    facts, findings, command = (
        _of_run(run_dir) if run_dir else _of_experiment(files, bindings, STEPS.value)
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", width=12)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(name, text)
    console.print(table)
    console.print(display.heading(findings))
    if findings:
        console.print()
        console.print(display.listing(findings, flags=True))
    changes = [finding.binding for finding in findings if finding.binding]
    if changes:
        typed = [f"--gin_bindings={shlex.quote(change)}" for change in _combined(bindings, changes)]
        console.print(
            f"[bold cyan]with all of it[/bold cyan]  {' '.join([command, *typed])}",
            soft_wrap=True,
            highlight=False,
        )


def _combined(bindings: Sequence[str], changes: Sequence[str]) -> list[str]:
    """The user's bindings and the changes, one a parameter.

    Of several changes of a parameter it is the first: the other findings may follow from its own.
    """
    chosen: dict[str, str] = {}
    for change in [*changes, *bindings]:
        chosen.setdefault(change.partition("=")[0].strip(), change)
    return list(chosen.values())


Facts = list[tuple[str, str]]


def _of_experiment(
    files: Sequence[str], bindings: Sequence[str], steps: int
) -> tuple[Facts, list["Finding"], str]:
    from acx.experiment import Experiment
    from acx.health.checkup import examine_environment
    from acx.health.context import context_of

    found = config.load(files, bindings)
    experiment = config.build(Experiment, found)
    resolved = config.resolved()
    try:
        experiment.build()
    except ConfigError as error:
        raise config.located(error, found) from None
    except RunError:
        pass  # the environment misbehaves: random steps will show how
    context = context_of(experiment, resolved)
    findings, played = examine_environment(context, steps)
    facts = [
        ("experiment", Path(files[-1]).stem),
        ("environment", _budget(context)),
        *([("random steps", _summary(played))] if played else []),
    ]
    return facts, findings, " ".join(["acx", *(f"--gin_file={file}" for file in files)])


def _budget(context: "Context") -> str:
    environment = context.experiment.environment
    return (
        f"{environment.env_id} × {environment.num_envs}, {context.total_steps:,} steps: "
        f"{context.iterations:,} rollouts of {context.experiment.rows:,}, "
        f"{context.steps_an_iteration:,} gradient steps each"
    )


def _summary(played: "Played") -> str:
    from acx.health.findings import amount

    count = len(played.lengths)
    nonzero = np.count_nonzero(played.rewards) / len(played.rewards)
    text = f"{len(played.rewards):,}, {nonzero:.0%} of them with a reward other than 0"
    if not count:
        return f"{text}; no episode ended"
    low, high = min(played.returns), max(played.returns)
    return (
        f"{text}; {count:,} episodes of {amount(float(np.mean(played.lengths)))} steps on average, "
        f"returns from {amount(low)} to {amount(high)}"
    )


def _of_run(run_dir: str) -> tuple[Facts, list["Finding"], str]:
    from acx import runs
    from acx.health.context import context_of_file
    from acx.health.examination import examined
    from acx.observers import read_status

    folder = runs.existing_folder(run_dir, ALLOW_IMPORTS.value)
    file = folder / runs.CONFIG
    context = context_of_file(file)
    examination = examined(folder, context)
    done = examination.history.step
    facts = [
        ("run", f"{folder}, {read_status(folder).get('state', 'unknown')}"),
        ("environment", _budget(context)),
        ("examined", f"{len(examination.history):,} reports of {done:,} steps"),
    ]
    return facts, examination.findings, f"acx --gin_file={file}"


def run() -> None:
    """The command."""
    run_command("acx.doctor", __doc__, FLAGS, doctor)


if __name__ == "__main__":
    run()
