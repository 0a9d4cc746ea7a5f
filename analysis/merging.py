"""One run from several event files: what a resumed run wrote twice counts once.

A run that stops after its last checkpoint and resumes there writes some steps again, in a new file.
The earlier points from that step on belong to a past that didn't happen; they are dropped for every
tag, so that no orphan is left between two sessions.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.scalars import EventFile


@dataclass(frozen=True)
class Merged:
    """One tag of a run: arrays [n], steps strictly increasing; `restart` counts the sessions."""

    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]
    restart: NDArray[np.int16]


def merge(
    files: Sequence[EventFile], averaged: Collection[str] = ()
) -> tuple[dict[str, Merged], list[str]]:
    """Join the event files of one run, given in the order of their names.

    Of several points of a tag at one step the last written counts; their mean does for the tags in
    `averaged`, which hold one value per episode. Returns the tags and remarks on what was dropped.
    """
    files = [file for file in files if file.series]
    ordered, remarks = _chronological(files)
    ends = _valid_ends(ordered)
    pieces: dict[str, list[Merged]] = defaultdict(list)
    dropped = 0
    for restart, (file, end) in enumerate(zip(ordered, ends, strict=True)):
        for tag, series in file.series.items():
            kept = series.step < end
            dropped += len(kept) - int(kept.sum())
            count = np.full(int(kept.sum()), restart, np.int16)
            pieces[tag].append(
                Merged(series.step[kept], series.wall_time[kept], series.value[kept], count)
            )
    if dropped:
        remarks.append(f"{dropped:,} points from before a restart were replaced by later ones")
    merged = {tag: _unique(_concatenated(parts), tag in averaged) for tag, parts in pieces.items()}
    return {tag: series for tag, series in merged.items() if len(series.step)}, remarks


def _chronological(files: list[EventFile]) -> tuple[list[EventFile], list[str]]:
    """Trust the order of the names unless the first file starts behind a later one."""
    starts = [_first_step(file, set(file.series)) for file in files]
    if not starts or starts[0] == min(starts):
        return files, []
    order = sorted(range(len(files)), key=lambda index: starts[index])
    remark = "the event files' names contradict their steps (was the clock set back?)"
    return [files[index] for index in order], [f"{remark}; they were ordered by steps"]


def _valid_ends(files: list[EventFile]) -> list[float]:
    """Return for each file the step from which a later session replaces it."""
    ends = [np.inf] * len(files)
    for later, successor in enumerate(files):
        for earlier in range(later):
            shared = set(successor.series) & set(files[earlier].series)
            if shared:
                ends[earlier] = min(ends[earlier], _first_step(successor, shared))
    return ends


def _first_step(file: EventFile, tags: set[str]) -> int:
    return min(int(file.series[tag].step.min()) for tag in tags)


def _concatenated(parts: list[Merged]) -> Merged:
    if len(parts) == 1:
        return parts[0]
    return Merged(
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.wall_time for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.restart for part in parts]),
    )


def _unique(series: Merged, average: bool) -> Merged:
    """Sort by step and leave one point a step."""
    step = series.step
    if np.all(step[1:] > step[:-1]):
        return series
    order = np.lexsort((series.wall_time, series.restart, step))
    step = step[order]
    last = np.flatnonzero(np.append(step[1:] != step[:-1], True))
    value = series.value[order]
    if average:
        first = np.append(0, last[:-1] + 1)
        value = np.add.reduceat(value, first) / (last + 1 - first)
    else:
        value = value[last]
    return Merged(step[last], series.wall_time[order][last], value, series.restart[order][last])
