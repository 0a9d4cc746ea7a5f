"""Whether two run folders hold the same run, bit for bit, and nothing else."""

import csv
import fnmatch
from pathlib import Path

import numpy as np

from acx.checkpoints import SUFFIX, load
from acx.observers import read_status

EXPECTED = (
    "config.gin",
    "metrics.csv",
    "status.json",
    "health.json",
    "run.lock",
    "events.out.tfevents.*",
    f"checkpoints/step-*{SUFFIX}",
    f"checkpoints/best{SUFFIX}",
)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((folder / "checkpoints").glob(f"step-*{SUFFIX}"))


def differences(folder: Path, undisturbed: Path) -> list[str]:
    """What in a finished run is not as in the undisturbed one; empty is bit-identical.

    Compared are every array of the last checkpoint (weights, optimizers, normalizers, random
    streams, counters, open episodes) and of the best one, the names of all checkpoints, the values
    of metrics.csv but those of time/*, and the final evaluation.
    """
    found = [f"{folder / 'status.json'}: {text}" for text in _status_differences(folder)]
    names = [[path.name for path in checkpoints(run)] for run in (folder, undisturbed)]
    if names[0] != names[1]:
        return [*found, f"checkpoints {names[0]} instead of {names[1]}"]
    best = [run / "checkpoints" / f"best{SUFFIX}" for run in (folder, undisturbed)]
    pairs = [(checkpoints(folder)[-1], checkpoints(undisturbed)[-1])]
    if best[0].exists() != best[1].exists():
        found.append(f"{best[0].name} exists in one run only")
    elif best[0].exists():
        pairs.append((best[0], best[1]))
    for own, other in pairs:
        found += [f"{own.name}: {text}" for text in _array_differences(own, other)]
    if _rows(folder) != _rows(undisturbed):
        found.append("metrics.csv differs")
    results = [_result(run) for run in (folder, undisturbed)]
    if results[0] != results[1]:
        found.append(f"evaluation {results[0]} instead of {results[1]}")
    return found


def _status_differences(folder: Path) -> list[str]:
    status = read_status(folder)
    expected = {"state": "finished", "exact": True}
    return [f"{k} = {status.get(k)!r}" for k, v in expected.items() if status.get(k) != v]


def _array_differences(own: Path, other: Path) -> list[str]:
    first, second = load(own), load(other)
    if first.keys() != second.keys():
        return [f"holds other arrays: {sorted(first.keys() ^ second.keys())}"]
    return [
        f"{name} differs"
        for name in first
        if first[name].dtype != second[name].dtype or not _same(first[name], second[name])
    ]


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and first.tobytes() == second.tobytes()


def _rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
        return [
            {tag: text for tag, text in row.items() if not tag.startswith("time/")}
            for row in csv.DictReader(file)
        ]


def _result(folder: Path) -> tuple[object, ...]:
    status = read_status(folder)
    return status.get("env_steps"), status.get("mean_reward"), status.get("std_reward")


def orphans(folder: Path) -> list[str]:
    """Files in a run folder that belong to no run, such as a killed writer's temporary files."""
    files = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]
    return [
        name for name in files if not any(fnmatch.fnmatch(name, pattern) for pattern in EXPECTED)
    ]
