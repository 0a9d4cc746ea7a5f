"""How findings are shown: a line during training, a list at the end and in the doctor."""

import shlex
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from acx.health.findings import Finding

STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
WORDS = {
    "error": ("error", "errors"),
    "warning": ("warning", "warnings"),
    "info": ("note", "notes"),
}
MARKS = {"error": "✖", "warning": "▲", "info": "●"}


def line(finding: Finding) -> Text:
    """What is seen and what to do, on one line (the terminal wraps it)."""
    return Text.assemble(
        (f"{MARKS[finding.severity]} {finding.name}: ", STYLES[finding.severity]),
        finding.seen,
        (" Try ", "dim") if finding.binding else " ",
        (finding.remedy, "bold" if finding.binding else ""),
    )


def heading(findings: Sequence[Finding]) -> Text:
    """How many findings of each severity there are."""
    counts = [
        (severity, sum(finding.severity == severity for finding in findings)) for severity in STYLES
    ]
    words = ", ".join(
        f"{count} {WORDS[severity][count > 1]}" for severity, count in counts if count
    )
    return Text.assemble(("health        ", "bold cyan"), words or "nothing found")


def listing(findings: Sequence[Finding], flags: bool = False) -> Table:
    """Each finding with its reason and its remedy; the gravest first.

    Args:
      findings: in any order.
      flags: show bindings as flags of a command that is about to be typed.
    """
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in sorted(findings, key=lambda finding: list(STYLES).index(finding.severity)):
        style = STYLES[finding.severity]
        place = f"  after {finding.step:,} steps" if finding.step else ""
        table.add_row(Text(MARKS[finding.severity], style), _title(finding.name, style, place))
        table.add_row("", Text(finding.seen))
        table.add_row("", Text(finding.why, "dim"))
        if finding.binding:
            typed = f"--gin_bindings={shlex.quote(finding.binding)}" if flags else finding.binding
            table.add_row("", Text.assemble(("try ", "dim"), (typed, "bold green")))
        elif finding.advice:
            table.add_row("", Text(finding.advice))
        table.add_row("", "")
    return table


def _title(name: str, style: str, place: str) -> Text:
    return Text.assemble((name, style), (place, "dim"))


def markdown(finding: Finding) -> str:
    """For TensorBoard's TEXT tab."""
    remedy = f"Try `{finding.binding}`" if finding.binding else finding.advice
    return f"**{finding.severity}: {finding.name}**\n\n{finding.seen} {finding.why}\n\n{remedy}"
