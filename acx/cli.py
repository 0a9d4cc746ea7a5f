"""What acx's commands have in common: help, stopping, and failures as one line and an exit code."""

import contextlib
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from absl import app, flags
from rich.console import Console

from acx.errors import ConfigError, Interrupted, RunError
from acx.warm import hand_over

EXIT_CONFIG, EXIT_RUN, EXIT_INTERRUPTED, EXIT_UNHEARD = 2, 3, 130, 141


def _silence() -> None:
    """Nobody reads the output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LastingConsole(Console):
    """A console whose program goes on in silence when its reader leaves (`| head`)."""

    def on_broken_pipe(self) -> None:
        """Print no more; rich would exit."""
        self.quiet = True
        _silence()


def run_command(
    name: str, description: str | None, own: flags.FlagValues, command: Callable[[], None]
) -> None:
    """Parse the command line, run `command` and leave with its exit code.

    Where a warm process is there, it does all that.

    Args:
      name: the command's name in messages.
      description: what --help shows above the flags: the module's docstring.
      own: the command's flags, in a set of their own so that commands can be imported together.
      command: is called without arguments.
    """
    if {"--help", "-h", "-help", "--helpshort"} & set(sys.argv[1:]):
        print(help_text(description or "", own))
        sys.exit(0)
    hand_over("acx.main" if name == "acx" else name)

    def parse(arguments: list[str]) -> list[str]:
        flags.FLAGS(arguments[:1])  # absl's own, which its loggers read
        if own.is_parsed():  # a process may run several commands
            own.unparse_flags()
        try:
            return own(arguments)
        except flags.Error as error:
            print(f"{name}: {error}: see {name} --help", file=sys.stderr)
            sys.exit(EXIT_CONFIG)

    app.run(lambda arguments: sys.exit(_exit_code(name, arguments, command)), flags_parser=parse)


def _exit_code(name: str, arguments: list[str], command: Callable[[], None]) -> int:
    try:
        if len(arguments) > 1:
            raise ConfigError(f"unexpected argument {arguments[1]!r}: see {name} --help")
        command()
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_CONFIG
    except RunError as error:
        print(f"{name}: the run stopped: {error}", file=sys.stderr)
        return EXIT_RUN
    except Interrupted as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 128 + error.signum
    except BrokenPipeError:
        _silence()
        return EXIT_UNHEARD
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def checkpoint_flags(
    own: flags.FlagValues,
) -> tuple[flags.FlagHolder[str], flags.FlagHolder[bool]]:
    """Define --checkpoint and --allow_imports, for commands that use a trained agent."""
    checkpoint = flags.DEFINE_enum(
        "checkpoint",
        "newest",
        ["newest", "best"],
        "The newest one, or that of the best evaluation during training.",
        flag_values=own,
    )
    return checkpoint, allow_imports_flag(own)


def allow_imports_flag(own: flags.FlagValues) -> flags.FlagHolder[bool]:
    """Define --allow_imports, for commands that read a run folder."""
    return flags.DEFINE_bool(
        "allow_imports",
        False,
        "Import the modules that a run folder from elsewhere names: runs their code.",
        flag_values=own,
    )


def help_text(description: str, own: flags.FlagValues) -> str:
    """The description, then the flags with their defaults."""
    lines = [description.strip(), "", "Flags:"]
    width = max(len(name) for name in own) + 4
    for name in own:
        flag = own[name]
        default = "" if flag.default in (None, [], False) else f" Default: {flag.default}."
        # absl adds a note of its own after a semicolon to flags that may be repeated.
        text = textwrap.wrap(flag.help.split(";\n")[0] + default, width=78 - width)
        lines.append(f"  {'--' + name:<{width}}{text[0]}")
        lines += [" " * (width + 2) + line for line in text[1:]]
    return "\n".join(lines)


class Stoppable(Protocol):
    """What ends by itself, with its work saved, once it is asked to."""

    stop_requested: bool


@contextlib.contextmanager
def stoppable(work: Stoppable, doing: str, tell: Callable[[str], None]) -> Iterator[list[int]]:
    """The first Ctrl-C or SIGTERM asks `work` to stop, the second stops it at once.

    Args:
      work: is asked by its `stop_requested`.
      doing: what it does once it was asked, for the message.
      tell: takes the message.

    Yields:
      The numbers of the signals that came.
    """
    received: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) > 1:
            raise KeyboardInterrupt
        work.stop_requested = True
        tell(f"{doing}; once more stops at once")

    previous = {signum: signal.signal(signum, handle) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
