"""Tables of figures: for the terminal, and between marks in a page."""

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
README, PERFORMANCE = ROOT / "README.md", ROOT / "docs/performance.md"
DOCTOR = ROOT / "docs/doctor.md"

Rows = Sequence[Sequence[str]]


def show(header: Sequence[str], rows: Rows, width: int = 120) -> None:
    """Print a table; `width` is for output that goes to a file."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else width).print(table)


def markdown(header: Sequence[str], rows: Rows) -> str:
    """The table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between the lines `<!-- name -->` and `<!-- end of name -->`."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.read_text(encoding="utf-8").split(start)
    after = rest.split(end)[1]
    page.write_text(before + start + text + end + after, encoding="utf-8")
