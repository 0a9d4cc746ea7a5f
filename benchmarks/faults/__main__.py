"""Break runs on purpose and count what held: python -m benchmarks.faults --parts=kills --kills=20

Without flags everything runs, at the counts that docs/reliability.md reports. Exit code 1 where a
promise was broken; the last line sums up.
"""

import functools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from absl import app, flags
from rich.console import Console

from benchmarks.faults.preparation import WORK  # isort: skip  (before TensorFlow is loaded)
from benchmarks.faults import (
    configurations,
    corruption,
    disk,
    experiments,
    kills,
    misbehavior,
    nonfinite,
    soak,
)
from benchmarks.faults.kills import Killer, Undisturbed
from benchmarks.faults.outcome import Outcome, all_kept, print_table, summary
from benchmarks.faults.processes import in_a_child, in_children

SEED = flags.DEFINE_integer("seed", 0, "Of the random moments, bytes and places.")
KILLS = flags.DEFINE_integer("kills", 200, "SIGKILLs; a third of them within a checkpoint's write.")
WORKERS = flags.DEFINE_integer("workers", 2, "Killed runs side by side.", lower_bound=1)
EXPERIMENTS = flags.DEFINE_integer(
    "experiments", len(experiments.EXPERIMENTS), "How many of the experiments are killed in turn."
)
DAMAGE = flags.DEFINE_integer("damage", 250, "Truncations of the newest checkpoint; corruptions.")
FULL = flags.DEFINE_integer("full", 12, "Runs on a disk that gets full.")
SOAK = flags.DEFINE_integer("soak", 10_000_000, "Environment steps of the long run.")
EVERY = flags.DEFINE_integer(
    "every", 1, "Take one in so many bad configurations, misbehaving environments and NaNs."
)


@functools.cache
def _undisturbed() -> dict[str, Undisturbed]:
    return kills.undisturbed_runs(Path(WORK), EXPERIMENTS.value)


def _kills(work: Path) -> list[Outcome]:
    third = KILLS.value // 3
    plan = [
        (kills.while_saving, "while a checkpoint is written", KILLS.value - 2 * third),
        (kills.while_training, "while training", third),
        (kills.any_moment, "at any moment", third),
    ]
    return [_share(killer, fault, count, work) for killer, fault, count in plan if count]


def _share(killer: Killer, fault: str, count: int, work: Path) -> Outcome:
    runs, workers = _undisturbed(), min(WORKERS.value, count)
    shares = [
        functools.partial(
            kills.check, killer, fault, runs, work, range(first, count, workers), SEED.value
        )
        for first in range(workers)
    ]
    return in_children(shares, work / f"{fault.replace(' ', '-')}.log")


def _damage(work: Path) -> list[Outcome]:
    run = next(iter(_undisturbed().values()))
    return [
        corruption.check(kind, run, work, DAMAGE.value, DAMAGE.value // 100, SEED.value)
        for kind in ("truncations", "corruptions")
    ]


def _disk(work: Path) -> list[Outcome]:
    run = next(iter(_undisturbed().values()))
    return [
        disk.full_disk(run, work, FULL.value, SEED.value),
        disk.folders(run, work),
        disk.closed_output(run, work),
    ]


def _configurations(work: Path) -> list[Outcome]:
    return [in_a_child(lambda: configurations.check(work, EVERY.value), work / "log")]


def _environments(work: Path) -> list[Outcome]:
    return [
        in_a_child(functools.partial(misbehavior.check, kind, EVERY.value), work / f"{kind}.log")
        for kind in misbehavior.CASES
    ]


def _nonfinite(work: Path) -> list[Outcome]:
    return [
        in_a_child(
            functools.partial(nonfinite.check, policy, work, EVERY.value), work / f"{policy}.log"
        )
        for policy in ("halt", "skip", "rollback")
    ]


PARTS: dict[str, Callable[[Path], list[Outcome]]] = {
    "kills": _kills,
    "damage": _damage,
    "disk": _disk,
    "configurations": _configurations,
    "environments": _environments,
    "nonfinite": _nonfinite,
    "soak": lambda work: [soak.check(work, SOAK.value)],
}
CHOSEN = flags.DEFINE_list("parts", list(PARTS), f"Of {', '.join(PARTS)}.")


def main(arguments: list[str]) -> None:
    unknown = [name for name in CHOSEN.value if name not in PARTS] + arguments[1:]
    if unknown:
        sys.exit(f"faults: there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    console, outcomes = Console(), []
    Path(WORK, "programs").mkdir()
    for name in CHOSEN.value:
        console.print(f"{name} ...")
        folder = Path(WORK, name)
        folder.mkdir()
        outcomes += PARTS[name](folder)
    print_table(outcomes, console)
    print(summary(outcomes))
    if not all_kept(outcomes):
        print(f"the runs are in {WORK}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(WORK)


if __name__ == "__main__":
    app.run(main)
