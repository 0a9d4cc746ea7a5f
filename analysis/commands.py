"""What the command lines share: arguments, and errors as one line instead of a traceback."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from analysis.errors import AnalysisError, EventLogWarning


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments that every command takes."""
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--tag", help="the scalar to score runs by (default: eval/mean_reward where it was logged)"
    )
    arguments.add_argument(
        "--names",
        help="whose tags the logs use: sb3 (the same as acx's), cleanrl, tf-agents, dopamine",
    )
    return arguments


def run(command: Callable[[Sequence[str] | None], None], argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code: 2 for what its user can put right, said in one line."""
    warnings.showwarning = _one_line
    try:
        command(argv)
        sys.stdout.flush()
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output (`| head`) left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


def _one_line(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    kind = "note" if issubclass(category, EventLogWarning) else "warning"
    print(f"{kind}: {message}", file=sys.stderr)
