"""The table in docs/doctor.md and the goals."""

from collections.abc import Sequence

import numpy as np

from benchmarks import pages
from benchmarks.sickness.measuring import Results, Sick

HEADER = (
    *("what is wrong", "experiment", "diagnosis", "right", "at", "printed binding"),
    *("worst score with it", "also found"),
)
RIGHT, CURED, WITHIN, COST = 0.95, 0.8, 0.1, 0.01  # the goals


def _groups(rows: Sequence[Sick]) -> dict[tuple[str, str], list[Sick]]:
    groups: dict[tuple[str, str], list[Sick]] = {}
    for row in rows:
        groups.setdefault((row.base, row.name), []).append(row)
    return groups


def is_cured(row: Sick) -> bool:
    """Whether the return is within a tenth of the way from random to healthy."""
    return row.score is not None and row.score >= 1 - WITHIN


def _cells(base: str, name: str, rows: Sequence[Sick]) -> list[str]:
    shares = [row.share for row in rows if row.share is not None]
    scores = [row.score for row in rows if row.score is not None]
    bindings = list(dict.fromkeys(row.binding for row in rows if row.binding))
    right = {row.diagnosis for row in rows} - {""}
    others = {found for row in rows for found, _ in row.found} - right
    return [
        name,
        base,
        ", ".join(sorted(right)) or "none",
        f"{_count_right(rows)} of {_seeds(rows)}",
        f"{np.median(shares):.1%}" if shares else "-",
        "<br>".join(f"`{binding}`" for binding in bindings) or "-",
        _worst(scores) if rows[0].curable else "no cure",
        ", ".join(sorted(others)) or "-",
    ]


def _seeds(rows: Sequence[Sick]) -> str:
    return "1 seed" if len(rows) == 1 else f"{len(rows)} seeds"


def _worst(scores: Sequence[float]) -> str:
    if not scores:
        return "not measured"
    return f"{min(scores):.2f} ({len(scores)} seed{'s' * (len(scores) > 1)})"


def _count_right(rows: Sequence[Sick]) -> int:
    return sum(row.diagnosis != "" for row in rows)


def markdown(results: Results) -> str:
    """Two tables, the set-ups that thresholds were chosen on and those held out."""
    lines = []
    for held_out, title in ((False, "Thresholds were chosen on these"), (True, "Held out")):
        rows = [row for row in results.sick if row.held_out == held_out]
        cells = [_cells(base, name, group) for (base, name), group in _groups(rows).items()]
        lines += [f"**{title}**", "", pages.markdown(HEADER, cells)]
    return "\n".join([*lines, *summary(results)])


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.0%})" if of else "none measured"


def _part(results: Results, held_out: bool) -> str:
    rows = [row for row in results.sick if row.held_out == held_out]
    tried = [row for row in rows if row.score is not None]
    right = _share(_count_right(rows), len(rows))
    cured = _share(sum(map(is_cured, tried)), len(tried))
    close = _share(sum(_is_close(results, row) for row in tried), len(tried))
    return (
        f"{right} diagnosed right in the first fifth of the budget, {cured} cured; {close} return "
        "at most a tenth of the healthy return's size less"
    )


def _is_close(results: Results, row: Sick) -> bool:
    """By the return itself, wherever random actions are: stricter where they are far below."""
    healthy = results.healthy_return(row.base)
    if healthy is None or row.cured_return is None:
        return False
    return row.cured_return >= healthy - WITHIN * abs(healthy)


def summary(results: Results) -> list[str]:
    """The figures beside the goals."""
    alarms = sum(bool(row.alarms) for row in results.healthy)
    measured = {name: seeds for name, seeds in results.references.items() if seeds}
    found = [bool(seed) for seeds in measured.values() for seed in seeds]
    return [
        f"- Chosen on: {_part(results, False)}.",
        f"- Held out: {_part(results, True)}.",
        f"- Healthy runs with a warning or an error: {alarms} of {len(results.healthy)}; of "
        f"{len(found)} measured for the README, on {len(measured)} experiments: {sum(found)}.",
        f"- Examining took {cost(results):.2%} of the time of the healthy runs.",
    ]


def cost(results: Results) -> float:
    """Seconds of examination by seconds of training."""
    trained = sum(row.seconds for row in results.healthy)
    return sum(row.examined for row in results.healthy) / trained if trained else 0.0


def missed(results: Results) -> list[str]:
    """The goals that are not met, in words."""
    rows, tried = results.sick, [row for row in results.sick if row.score is not None]
    goals = [
        (_count_right(rows) >= RIGHT * len(rows), f"diagnosed right: {RIGHT:.0%}"),
        (sum(map(is_cured, tried)) >= CURED * len(tried), f"cured: {CURED:.0%}"),
        (not any(row.alarms for row in results.healthy), "no alarm in healthy runs"),
        (not any(map(any, results.references.values())), "no alarm in measured runs"),
        (cost(results) < COST, f"cost below {COST:.0%}"),
    ]
    return [goal for met, goal in goals if not met]


def write_docs(results: Results) -> None:
    """Replace the table in docs/doctor.md."""
    pages.put(pages.DOCTOR, "sickness table", f"{markdown(results)}\n")
