"""What acx's commands have in common: help, and failures as one line and an exit code."""

import sys
import textwrap
from collections.abc import Callable
from types import ModuleType

from absl import app, flags

from acx.errors import ConfigError, Interrupted, RunError

EXIT_CONFIG, EXIT_RUN, EXIT_INTERRUPTED = 2, 3, 130


def run_command(module_name: str, name: str, command: Callable[[], None]) -> None:
    """Parse the command line, run `command` and leave with its exit code.

    Args:
      module_name: the module that defines the command's flags; its docstring is the help text.
      name: the command's name in messages.
    """
    module = sys.modules[module_name]
    if {"--help", "-h", "-help", "--helpshort"} & set(sys.argv[1:]):
        print(help_text(module))
        sys.exit(0)

    def parse(arguments: list[str]) -> list[str]:
        try:
            return flags.FLAGS(arguments)
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
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def help_text(module: ModuleType) -> str:
    """The module's docstring, then its flags with their defaults."""
    lines = [(module.__doc__ or "").strip(), "", "Flags:"]
    own = flags.FLAGS.get_flags_for_module(module.__name__)
    width = max(len(flag.name) for flag in own) + 4
    for flag in own:
        default = "" if flag.default in (None, [], False) else f" Default: {flag.default}."
        text = textwrap.wrap(f"{flag.help.split(chr(59) + chr(10))[0]}{default}", width=78 - width)
        lines.append(f"  {'--' + flag.name:<{width}}{text[0]}")
        lines += [" " * (width + 2) + line for line in text[1:]]
    return "\n".join(lines)
