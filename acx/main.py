"""Train an agent: acx --gin_file=experiments/pendulum.gin

Gin files describe the experiment; experiments/ has examples, docs/guide.md says how to write one.
The results go to a run folder that TensorBoard and the analysis package read.

Exit codes: 0 done, 2 the configuration can't be run, 3 the run had to stop, 130 or 143 interrupted.
"""

from contextlib import nullcontext

from absl import flags

from acx.cli import LastingConsole, run_command
from acx.errors import ConfigError

FLAGS = flags.FlagValues()
GIN_FILE = flags.DEFINE_multi_string(
    "gin_file",
    [],
    "Gin file of the experiment. Repeat to add files: the last binding wins.",
    flag_values=FLAGS,
)
GIN_BINDINGS = flags.DEFINE_multi_string(
    "gin_bindings", [], "Override one value, such as 'gamma = 0.95'. Repeatable.", flag_values=FLAGS
)
RUN_DIR = flags.DEFINE_string(
    "run_dir",
    None,
    "Folder of this run. Default: runs/<experiment>/<time>-seed<seed>.",
    flag_values=FLAGS,
)
RESUME = flags.DEFINE_bool(
    "resume",
    False,
    "Continue the run in --run_dir with the configuration it was started with.",
    flag_values=FLAGS,
)
ALLOW_CHANGES = flags.DEFINE_bool(
    "allow_changes",
    False,
    "Let --resume go on with bindings that differ from the run's own.",
    flag_values=FLAGS,
)
ALLOW_IMPORTS = flags.DEFINE_bool(
    "allow_imports",
    False,
    "Let --resume import the modules that a run folder from elsewhere names: runs their code.",
    flag_values=FLAGS,
)
SEED = flags.DEFINE_integer(
    "seed", None, "Root of all randomness; same as binding 'seed = N'.", flag_values=FLAGS
)


def train() -> None:
    """Start or resume a run as the flags say."""
    files, bindings = list(GIN_FILE.value), list(GIN_BINDINGS.value)
    if SEED.value is not None:
        bindings.append(f"seed = {SEED.value}")
    run_dir = RUN_DIR.value
    if RESUME.value and (files or run_dir is None):
        raise ConfigError("--resume takes the run's own configuration: name --run_dir, no gin file")
    if not RESUME.value and not files:
        raise ConfigError("name an experiment: --gin_file=experiments/pendulum.gin")
    from acx import config

    config.scan(files, bindings)  # typing errors first: TensorFlow takes seconds to load

    console = LastingConsole()
    with console.status("loading TensorFlow") if console.is_interactive else nullcontext():
        from acx.runtime import load_tensorflow

        device = load_tensorflow()
        from acx import runs
    if RESUME.value and run_dir is not None:
        runs.resume(
            run_dir,
            bindings,
            ALLOW_CHANGES.value,
            console,
            device,
            allow_imports=ALLOW_IMPORTS.value,
        )
    else:
        runs.start(files, bindings, run_dir, console, device)


def run() -> None:
    """The command and console script."""
    run_command("acx", __doc__, FLAGS, train)


if __name__ == "__main__":
    run()
