"""Run folders: every folder that directly holds TensorBoard event files is one run."""

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import AnalysisError

Paths = str | Path | Iterable[str | Path]

_EVENT_FILE = re.compile(r"tfevents\.(\d+)\.?(.*)")


@dataclass(frozen=True)
class Run:
    """A run folder; `name` is its path below the folder that was asked for, as in TensorBoard."""

    name: str
    path: Path
    event_files: tuple[Path, ...]


def find_runs(paths: Paths) -> list[Run]:
    """Find the runs in folders, below them, and in what glob patterns name; sorted by name.

    Raises:
        AnalysisError: a path doesn't exist, a pattern matches nothing, or no run was found.
    """
    roots = _roots([paths] if isinstance(paths, str | Path) else list(paths))
    folders: dict[Path, tuple[Path, ...]] = {}
    for root in roots:
        for folder, children, files in os.walk(root):
            children[:] = sorted(child for child in children if child != "checkpoints")
            events = _ordered(Path(folder) / file for file in files)
            if events:
                folders[Path(folder).resolve()] = events
    if not folders:
        raise AnalysisError(
            f"no runs in {_spoken(roots)}: no folder there holds a TensorBoard event file "
            "(events.out.tfevents.*)"
        )
    base = _base([root.resolve() for root in roots], list(folders))
    runs = [Run(path.relative_to(base).as_posix(), path, files) for path, files in folders.items()]
    return sorted(runs, key=lambda run: run.name)


def _roots(paths: list[str | Path]) -> list[Path]:
    roots: list[Path] = []
    for path in paths:
        text = os.path.expanduser(path)
        matches = [text] if os.path.exists(text) else sorted(glob.glob(text, recursive=True))
        if not matches:
            raise AnalysisError(f"{path} doesn't exist; name a run, a folder of runs or a pattern")
        found = [Path(match) for match in matches if os.path.isdir(match)]
        if not found:
            raise AnalysisError(f"{path} is not a folder; name the run folder that holds it")
        roots += found
    if not roots:
        raise AnalysisError("no path was given; name a run, a folder of runs or a pattern")
    return roots


def _base(roots: list[Path], folders: list[Path]) -> Path:
    """Return the folder that names are relative to: never a run itself, for the name it needs."""
    base = Path(os.path.commonpath(roots))
    return base.parent if base in folders else base


def _ordered(files: Iterable[Path]) -> tuple[Path, ...]:
    """Sort event files by the second in their name, as a number, then by what follows it."""
    stamps = [
        (int(match[1]), match[2], file)
        for file in files
        if (match := _EVENT_FILE.search(file.name)) and not file.name.endswith(".profile-empty")
    ]
    return tuple(file for _, _, file in sorted(stamps))


def _spoken(roots: list[Path]) -> str:
    return ", ".join(map(str, roots[:3])) + (", …" if len(roots) > 3 else "")
