"""Runs as pandas tables: all points, all configurations, all states."""

import difflib
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.cache import read_cached
from analysis.configs import swept, typed
from analysis.errors import AnalysisError, EventLogWarning
from analysis.folders import Paths, Run, find_runs
from analysis.merging import Merged, merge
from analysis.metadata import Description, describe, needs_events
from analysis.names import PER_EPISODE, tag_names
from analysis.scalars import EventFile

MUCH = 100 << 20  # bytes; reading takes more than a second


def load_runs(
    paths: Paths,
    tags: str | Collection[str] | None = None,
    names: str | Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Load every point of every run below `paths` (folders or glob patterns) into a tidy table.

    Columns: run, seed, tag, step, wall_time (seconds since 1970), value, restart (the session that
    wrote the point), and one typed column for each hyperparameter that differs between the runs.
    Rows are sorted by run, tag and step, and (run, tag, step) is unique. `tags` keeps only these;
    `names` translates another library's tags first ("cleanrl", "tf-agents", "dopamine", or a dict).
    `table.attrs["remarks"]` lists what was lost to damage or replaced by a resumed session.

    Raises:
        AnalysisError: no runs, no scalars, or a tag that no run has.
    """
    mapping = tag_names(names)
    wanted = {tags} if isinstance(tags, str) else None if tags is None else set(tags)
    loaded = [_load(run, wanted, mapping) for run in _shown(find_runs(paths))]
    _require_points(loaded, wanted, mapping)
    remarks = [remark for run in loaded for remark in run.remarks]
    if remarks:
        more = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
        warnings.warn(f"{remarks[0]}{more}", EventLogWarning, stacklevel=2)
    table = _table(loaded)
    table.attrs["remarks"] = remarks
    return table


def load_configs(paths: Paths) -> pd.DataFrame:
    """Load the bindings of every run: one row per run, one typed column per binding.

    `table.attrs["swept"]` names the columns that differ between runs, seeds left out.

    Raises:
        AnalysisError: no runs, or a config.gin that isn't gin.
    """
    return config_table(list(_descriptions(find_runs(paths))))


def load_status(paths: Paths) -> pd.DataFrame:
    """Load the state of every run: one row per run, by name.

    Columns: experiment, task (the environment's id), group (a digest of the configuration without
    the seed), label (the group in words), seed, state, env_steps, total_steps, message, copy_of
    (the run that has the same configuration and seed and got further; empty for all others), path.

    Raises:
        AnalysisError: no runs, or a config.gin that isn't gin.
    """
    return status_table(list(_descriptions(find_runs(paths))))


def config_table(described: Sequence[tuple[Run, Description]]) -> pd.DataFrame:
    """Do as `load_configs` for runs already described."""
    names = list(dict.fromkeys(name for _, about in described for name in about.config))
    index = pd.Index([run.name for run, _ in described], name="run")
    raw = pd.DataFrame(
        {name: [about.config.get(name) for _, about in described] for name in names},
        index=index,
        dtype=object,
    )
    columns = {name: typed(raw[name].tolist()).set_axis(index) for name in names}
    table = pd.DataFrame(columns, index=index)
    table.attrs["swept"] = swept(raw)
    return table


def status_table(described: Sequence[tuple[Run, Description]]) -> pd.DataFrame:
    """Do as `load_status` for runs already described."""
    labels = group_labels(described)
    rows = [
        {
            "run": run.name,
            "experiment": about.experiment,
            "task": about.task,
            "group": about.group,
            "label": labels[about.group],
            "seed": about.seed,
            "state": str(about.status.get("state", "unknown")),
            "env_steps": about.status.get("env_steps"),
            "total_steps": about.status.get("total_steps"),
            "message": str(about.status.get("message") or ""),
            "path": str(run.path),
        }
        for run, about in described
    ]
    table = pd.DataFrame(rows).set_index("run")
    counts = ["seed", "env_steps", "total_steps"]
    table[counts] = table[counts].astype("Int64")
    table.insert(9, "copy_of", _copies(table))
    return table


def _copies(table: pd.DataFrame) -> pd.Series:
    """Name for each repeated (group, seed) the run that counts: finished, then furthest, latest."""
    ranked = table.assign(
        finished=table["state"].eq("finished"),
        reached=table["env_steps"].fillna(0),
        name=table.index,
    ).sort_values(["finished", "reached", "name"])
    counted = ranked.groupby(["group", "seed"], dropna=True)["name"].transform("last")
    return counted.where(counted != ranked["name"], "").fillna("").reindex(table.index)


def group_labels(described: Sequence[tuple[Run, Description]]) -> dict[str, str]:
    """Name each group: its experiment, and what sets it apart from that experiment's others."""
    labels: dict[str, str] = {}
    for experiment in dict.fromkeys(about.experiment for _, about in described):
        members = [pair for pair in described if pair[1].experiment == experiment]
        varied = config_table(members).attrs["swept"]
        for _, about in members:
            own = [name for name in varied if name in about.config]
            shown = [f"{_short(name)}={_spoken(about.config[name])}" for name in own[:4]]
            shown += ["…", about.group[:4]] if len(own) > 4 else []
            labels[about.group] = " ".join([experiment, *shown])
    for group, label in labels.items():
        if list(labels.values()).count(label) > 1:
            labels[group] = f"{label} {group[:4]}"
    return labels


def _spoken(value: object) -> str:
    """Write a reference as the component's name."""
    return re.sub(r"^@(.*?)(\(\))?$", r"\1", str(value))


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _shown(runs: Sequence[Run]) -> Iterable[Run]:
    """Show progress in a terminal while much is read."""
    size = sum(path.stat().st_size for run in runs for path in run.event_files)
    if size < MUCH or not sys.stderr.isatty():
        return runs
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(runs, f"reading {size / 1e6:,.0f} MB", console=console, transient=True)


@dataclass(frozen=True)
class _Loaded:
    run: Run
    about: Description
    tags: dict[str, Merged]
    remarks: list[str]


def _load(run: Run, wanted: set[str] | None, mapping: Mapping[str, str]) -> _Loaded:
    sources = None
    if wanted is not None:
        sources = wanted | {theirs for theirs, ours in mapping.items() if ours in wanted}
    files = _event_files(run, sources)
    merged, remarks = merge(files, PER_EPISODE if mapping else ())
    renamed = {mapping.get(tag, tag): series for tag, series in merged.items()}
    if wanted is not None:
        renamed = {tag: series for tag, series in renamed.items() if tag in wanted}
    remarks = [f"{run.name}: {remark}" for remark in remarks]
    remarks += [str(damage) for file in files for damage in file.damages]
    return _Loaded(run, describe(run, files), dict(sorted(renamed.items())), remarks)


def _event_files(run: Run, tags: Collection[str] | None = None) -> list[EventFile]:
    try:
        return [read_cached(path, tags) for path in run.event_files]
    except OSError as error:
        raise AnalysisError(f"{error.filename}: {error.strerror}") from None


def _descriptions(runs: Iterable[Run]) -> Iterator[tuple[Run, Description]]:
    for run in runs:
        yield run, describe(run, _event_files(run, ()) if needs_events(run) else ())


def _require_points(
    loaded: Sequence[_Loaded], wanted: set[str] | None, mapping: Mapping[str, str]
) -> None:
    found = {tag for run in loaded for tag in run.tags}
    missing = sorted((wanted or set()) - found)
    if found and not missing:
        return
    everything = found
    if wanted is not None:
        everything = {tag for run in loaded for tag in _load(run.run, None, mapping).tags}
    if not everything:
        damaged = " (their event files are damaged)" if any(run.remarks for run in loaded) else ""
        raise AnalysisError(
            f"no scalars in {loaded[0].run.path}{_others(len(loaded) - 1)}{damaged}: "
            "nothing was logged yet"
        )
    near = difflib.get_close_matches(missing[0], everything, n=3, cutoff=0.4)
    known = near or sorted(everything)[:8]
    raise AnalysisError(f"no run has the tag {missing[0]!r}; there is {', '.join(known)}")


def _others(count: int) -> str:
    return f" and {count} other runs" if count else ""


def _table(loaded: Sequence[_Loaded]) -> pd.DataFrame:
    """Join all runs: repeated texts as categories, hyperparameters repeated per point."""
    parts = [(index, tag, run.tags[tag]) for index, run in enumerate(loaded) for tag in run.tags]
    sizes = [len(series.step) for _, _, series in parts]
    run_codes = np.repeat(np.array([index for index, _, _ in parts], np.int32), sizes)
    tags = sorted({tag for _, tag, _ in parts})
    tag_codes = np.repeat(np.array([tags.index(tag) for _, tag, _ in parts], np.int32), sizes)
    configs = config_table([(run.run, run.about) for run in loaded])
    seeds = pd.array([run.about.seed for run in loaded], dtype="Int64")
    columns: dict[str, Any] = {
        "run": pd.Categorical.from_codes(run_codes, [run.run.name for run in loaded]),
        "seed": seeds.take(run_codes),
        "tag": pd.Categorical.from_codes(tag_codes, tags),
        "step": np.concatenate([series.step for _, _, series in parts]),
        "wall_time": np.concatenate([series.wall_time for _, _, series in parts]),
        "value": np.concatenate([series.value for _, _, series in parts]),
        "restart": np.concatenate([series.restart for _, _, series in parts]),
    }
    for name in configs.attrs["swept"]:
        columns[name] = configs[name].array.take(run_codes)
    return pd.DataFrame(columns, copy=False)
