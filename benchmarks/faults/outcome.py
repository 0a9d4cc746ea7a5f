"""What a fault campaign found: cases tried, promises broken."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table


@dataclass
class Outcome:
    """One row of the table: a kind of fault, how often it was tried, and what went wrong."""

    part: str
    fault: str
    promise: str
    cases: int = 0
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, problems: Iterable[str], case: str) -> None:
        """Note one case; it is broken where there are problems."""
        self.cases += 1
        listed = "; ".join(problems)
        if listed:
            self.broken.append(f"{case}: {listed}")

    def plus(self, other: "Outcome") -> "Outcome":
        """Both, tried side by side."""
        return replace(
            self,
            cases=self.cases + other.cases,
            broken=self.broken + other.broken,
            seconds=max(self.seconds, other.seconds),
        )

    @property
    def kept(self) -> int:
        """Cases in which the promise was kept."""
        return self.cases - len(self.broken)


def print_table(outcomes: list[Outcome], console: Console) -> None:
    """All rows, then each broken promise in a line."""
    table = Table(title="Faults", title_justify="left")
    for column in ("part", "fault", "promise"):
        table.add_column(column, overflow="fold")
    for column in ("cases", "kept", "seconds"):
        table.add_column(column, justify="right")
    for row in outcomes:
        style = "red" if row.broken or not row.cases else None
        numbers = (str(row.cases), str(row.kept), f"{row.seconds:.1f}")
        table.add_row(row.part, row.fault, row.promise, *numbers, style=style)
    console.print(table)
    for row in outcomes:
        for line in row.broken:
            console.print(f"{row.part}, {row.fault}: {line}", markup=False, soft_wrap=True)


def summary(outcomes: list[Outcome]) -> str:
    """The last line."""
    cases, kept = sum(row.cases for row in outcomes), sum(row.kept for row in outcomes)
    seconds = sum(row.seconds for row in outcomes)
    return f"faults: {kept} of {cases} cases kept their promise, {seconds:.0f} s"


def all_kept(outcomes: list[Outcome]) -> bool:
    """Whether no promise was broken and every part had cases."""
    return all(row.cases and not row.broken for row in outcomes)
