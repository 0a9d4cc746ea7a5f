"""Train an agent: acx --gin_file=experiments/pendulum.gin

Gin files describe the experiment; experiments/ has examples, docs/guide.md says how to write one.
The results go to a run folder that TensorBoard and the analysis package read.

Exit codes: 0 done, 2 the configuration can't be run, 3 the run had to stop, 130 interrupted.
"""

import sys
from pathlib import Path

from absl import app, flags

from acx import config
from acx.errors import ConfigError, RunError

GIN_FILE = flags.DEFINE_multi_string(
    "gin_file", [], "Gin file of the experiment. Repeat to add files: the last binding wins."
)
GIN_BINDINGS = flags.DEFINE_multi_string(
    "gin_bindings", [], "Override one value, such as 'gamma = 0.95'. Repeatable."
)
RUN_DIR = flags.DEFINE_string(
    "run_dir", None, "Folder of this run. Default: runs/<experiment>/<time>-seed<seed>."
)
SEED = flags.DEFINE_integer("seed", None, "Root of all randomness; same as binding 'seed = N'.")


def train() -> None:
    """Train as the flags say."""
    files, bindings = list(GIN_FILE.value), list(GIN_BINDINGS.value)
    if not files:
        raise ConfigError("name an experiment: --gin_file=experiments/pendulum.gin")
    if SEED.value is not None:
        bindings.append(f"seed = {SEED.value}")
    config.scan(files, bindings)  # typing errors first: TensorFlow takes seconds to load

    from rich.console import Console

    console = Console()
    with console.status("loading TensorFlow"):
        from acx.runtime import load_tensorflow

        device = load_tensorflow()
        from acx import runs
    runs.train(Path(files[-1]).stem, files, bindings, RUN_DIR.value, console, device)


def main(arguments: list[str]) -> int:
    """Run the command and turn failures into one line and an exit code."""
    try:
        if len(arguments) > 1:
            raise ConfigError(f"unexpected argument {arguments[1]!r}: see acx --help")
        train()
    except ConfigError as error:
        print(f"acx: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(f"acx: the run stopped: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("acx: interrupted", file=sys.stderr)
        return 130
    return 0


def run() -> None:
    """Console script."""
    app.run(main)


if __name__ == "__main__":
    run()
