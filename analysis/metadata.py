"""What a run folder says about itself: configuration, seed, experiment and status."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from analysis.configs import Config, group_key, is_seed, parse_gin, parse_table, read_gin
from analysis.errors import AnalysisError
from analysis.folders import Run
from analysis.scalars import EventFile

_CLEANRL = re.compile(r"^(?P<stem>.+)__(?P<seed>\d+)__\d{9,}$")  # env__experiment__seed__time
_NUMBERED = re.compile(r"^(?P<stem>.+?)[-_](?:seed[-_]?)?(?P<seed>\d+)$")  # PPO_3, seed_3, x-seed3


@dataclass(frozen=True)
class Description:
    """One run: its bindings, seed (None if unknown), experiment, task, group and status file.

    `task` is the environment's id, empty if unknown.
    Runs of one `group` are repetitions: their configurations differ in nothing but the seed.
    """

    config: Config
    seed: int | None
    experiment: str
    task: str
    group: str
    status: dict[str, Any] = field(default_factory=dict)


def needs_events(run: Run) -> bool:
    """Say whether the configuration can only be in the event files."""
    return not (run.path / "config.gin").is_file()


def describe(run: Run, files: Sequence[EventFile] = ()) -> Description:
    """Describe a run by its config.gin and status.json, else by what its events and name say.

    Raises:
        AnalysisError: config.gin can't be read as gin.
    """
    config, status = _config(run, files), _status(run)
    stem, numbered = _from_name(run.name)
    seeds = [config[name] for name in sorted(config, key=len) if is_seed(name)]
    seeds += [status.get("seed"), numbered]
    seed = next((seed for seed in seeds if isinstance(seed, int)), None)
    experiment = str(status.get("experiment") or stem)
    group = group_key({**config, "experiment": experiment}) if config else group_key({"": stem})
    return Description(
        config, seed, experiment, _task(config) or str(status.get("env_id") or ""), group, status
    )


def _config(run: Run, files: Sequence[EventFile]) -> Config:
    if not needs_events(run):
        return read_gin(run.path / "config.gin")
    config: Config = {}
    for file in files:
        config |= file.hparams
        for tag, text in file.texts.items():
            if tag.endswith("gin"):
                lines = [line for line in text.splitlines() if not line.startswith("```")]
                config |= parse_gin(dedent("\n".join(lines)), f"{run.name}, text {tag}")
            elif "|param|value|" in text:
                config |= parse_table(text)
    return config


def _task(config: Config) -> str:
    """Return the id of the environment that is trained in: `Environment.env_id`, or CleanRL's."""
    names = [name for name in config if re.split(r"[./]", name)[-1] == "env_id"]
    return str(config[min(names, key=len)]) if names else ""


def _status(run: Run) -> dict[str, Any]:
    """Read status.json; the state is "unknown" without one, "unreadable" if it is broken."""
    path = run.path / "status.json"
    try:
        status = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"state": "unknown"}
    except (OSError, ValueError):
        return {"state": "unreadable"}
    return status if isinstance(status, dict) else {"state": "unreadable"}


def _from_name(name: str) -> tuple[str, int | None]:
    """Split what other libraries put into a folder's name: what was run, and the seed."""
    parent, _, folder = name.rpartition("/")
    match = _CLEANRL.match(folder) or _NUMBERED.match(folder)
    if match is None:
        return (parent or folder), None
    stem = match["stem"]
    return (f"{parent}/{stem}" if parent else stem), int(match["seed"])


def health_findings(run: Run) -> list[dict[str, Any]]:
    """Read health.json: a list of {"step", "severity", "name", "seen", "why", "try"}.

    Raises:
        AnalysisError: the file exists and is no such list.
    """
    path = run.path / "health.json"
    if not path.is_file():
        return []
    try:
        findings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        findings = None
    if not isinstance(findings, list) or not all(isinstance(item, dict) for item in findings):
        raise AnalysisError(f"{path}: not a list of findings")
    return findings
