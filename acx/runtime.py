"""Loads TensorFlow quietly and sets it up for many small, reproducible computations."""

import contextlib
import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator

from acx.executables import use_kept_programs

# Keras imports these where they are installed, for data and pictures of its own: 0.7 s of a start.
UNNEEDED = ("pandas", "matplotlib")
# XLA orders operations so that several can run at once, and hands some to a second thread. In
# programs as small as these, waking it takes longer than what it does.
IN_TURN = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


@contextlib.contextmanager
def _without(modules: Iterable[str]) -> Iterator[None]:
    """Let imports in the block do without modules that are not loaded yet."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _held_stderr() -> Iterator[None]:
    """Hold back what native code writes to stderr; show it if the block fails.

    TensorFlow's first lines (instruction sets, missing GPU drivers) come before its own log
    level is read, so no environment variable silences them.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        kept = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, through what imports make.

    It takes a quarter of the time in which TensorFlow is imported, and frees nothing. What was made
    is never looked at again, so later collections are short.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def choose_xla_flags() -> None:
    """Say how XLA compiles and where it keeps programs: before its first, in the environment."""
    flags = os.environ.get("XLA_FLAGS", "")
    if IN_TURN not in flags:
        os.environ["XLA_FLAGS"] = f"{IN_TURN} {flags}".strip()
    use_kept_programs()


def import_tensorflow() -> None:
    """Import it quietly and fast. It computes nothing yet, so a process may still be forked."""
    # Not even errors: what goes wrong raises, and XLA calls hints for tuning missing instructions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _held_stderr(), _without(UNNEEDED), _uncollected():
        importlib.import_module("tensorflow")


def load_tensorflow() -> str:
    """Load TensorFlow and choose its threads; returns the device it computes on, in words.

    One thread a program: the networks are too small to gain from more, the second core is
    better used by the critic, and sums in a fixed order make runs reproducible.
    """
    if "tensorflow" not in sys.modules:
        choose_xla_flags()
        import_tensorflow()
    with _held_stderr(), _without(UNNEEDED):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        gpus = tf.config.list_physical_devices("GPU")
        tf.constant(0.0)
    version = f"TensorFlow {tf.__version__}"
    return f"{len(gpus)} GPU, {version}" if gpus else f"CPU, {os.cpu_count()} cores, {version}"
