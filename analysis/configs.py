"""Configurations of runs as typed columns: what was set, what was swept, what a group shares."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from gin import config_parser

from analysis.errors import AnalysisError

Config = dict[str, Any]

_TABLE_ROW = re.compile(r"^\|([^|]+)\|([^|]*)\|$", re.MULTILINE)


class _Macro(str):
    """The name of a macro that a binding refers to."""


class _Names(config_parser.ParserDelegate):
    """Keeps references as they are written, so that nothing has to be imported."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> str:
        return f"@{scoped_configurable_name}" + ("()" if evaluate else "")

    def macro(self, macro_name: str) -> _Macro:
        return _Macro(macro_name)


def read_gin(path: Path) -> Config:
    """Read the bindings of a gin file: {"GAE.gamma": 0.99, "gamma": 0.99, …}, macros resolved.

    Raises:
        AnalysisError: the file is no gin file.
    """
    return parse_gin(path.read_text(encoding="utf-8"), str(path))


def parse_gin(text: str, origin: str) -> Config:
    """Read bindings from gin text; `origin` names it in errors. See `read_gin`."""
    config: Config = {}
    try:
        for statement in config_parser.ConfigParser(text, _Names()):
            if isinstance(statement, config_parser.BindingStatement):
                scope = f"{statement.scope}/" if statement.scope else ""
                parameter = f".{statement.arg_name}" if statement.arg_name else ""
                config[f"{scope}{statement.selector}{parameter}"] = statement.value
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{origin}, line {line}" if line else origin
        raise AnalysisError(f"{place}: not a gin binding ({str(error).splitlines()[0]})") from None
    return {name: _resolved(value, config) for name, value in config.items()}


def _resolved(value: Any, config: Mapping[str, Any]) -> Any:
    for _ in range(len(config)):  # a macro may name another; a circle ends here
        if not isinstance(value, _Macro):
            break
        value = config.get(value, f"%{value}")
    return value


def parse_table(markdown: str) -> Config:
    """Read the hyperparameters that CleanRL writes as a Markdown table `|param|value|`."""
    rows = [(name.strip(), value.strip()) for name, value in _TABLE_ROW.findall(markdown)]
    return {
        name: _literal(value)
        for name, value in rows
        if name != "param" and not set(name) <= set("-: ")
    }


def _literal(text: str) -> Any:
    names = {"True": True, "False": False, "None": None}
    if text in names:
        return names[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def is_seed(name: str) -> bool:
    """Say whether a binding only tells repetitions apart: `seed`, `Experiment.seed`, …."""
    return re.split(r"[./]", name)[-1] == "seed"


def group_key(config: Mapping[str, Any]) -> str:
    """Return a digest of a whole configuration without its seed: equal for repetitions only."""
    content = {name: value for name, value in config.items() if not is_seed(name)}
    text = json.dumps(content, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def swept(configs: pd.DataFrame) -> list[str]:
    """Name the columns that differ between runs, without seeds.

    A binding that always equals a macro which differs (`GAE.gamma` beside `gamma`) is left out.
    """
    texts = configs.map(lambda value: json.dumps(value, default=repr))
    varied = [name for name in configs if not is_seed(name) and texts[name].nunique() > 1]
    macros = [name for name in varied if not set("./") & set(name)]
    shadows = {
        name
        for name in varied
        if name not in macros and any(texts[name].equals(texts[macro]) for macro in macros)
    }
    return [name for name in varied if name not in shadows]


def typed(values: list[Any]) -> pd.Series:
    """Make a column of one hyperparameter: bool, int or float where all are; text otherwise."""
    present = [value for value in values if value is not None]
    for kind, dtype in ((bool, "boolean"), (int, "Int64"), (int | float, "float64")):
        if present and all(
            isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            for value in present
        ):
            whole = len(present) == len(values)
            plain = {"boolean": "bool", "Int64": "int64"}.get(dtype, dtype) if whole else dtype
            return pd.Series(values, dtype=plain)
    return pd.Series([value if isinstance(value, str) else repr(value) for value in values])
