"""Gin configuration: declare components, read files, check, build, save.

This is the one module that touches gin. A component is a plain class decorated with
`@configurable`; its constructor's annotations are its contract: a binding of the wrong type or
out of range is refused with the file and line that it came from. Precedence, last wins: base
file (included first) < experiment file < further files < command line.
"""

import dataclasses
import difflib
import functools
import importlib.util  # gin's file search needs it to be imported
import inspect
import math
import os
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import gin
from gin import config_parser
from pydantic import ConfigDict, Field, ValidationError, validate_call

from acx.errors import ConfigError

assert importlib.util  # keep the import that gin relies on

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]

Class = TypeVar("Class", bound=type)

_COMPONENTS: dict[str, type] = {}


def configurable(cls: Class) -> Class:
    """Register a class with gin as `acx.<name>` and check its constructor's arguments.

    Raises (from the constructor):
      ConfigError: an argument is missing, of the wrong type or out of range.
    """
    constructor = cls.__init__  # type: ignore[misc]
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True, strict=True))(
        constructor
    )

    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise _first_problem(cls.__name__, error) from None
        except ConfigError as error:
            error.component = error.component or cls.__name__
            raise

    # Gin looks here for the defaults that the resolved configuration holds.
    __init__.__signature__ = inspect.signature(constructor)  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[misc]
    _COMPONENTS[cls.__name__] = cls
    return gin.configurable(cls.__name__, module="acx")(cls)


def _first_problem(component: str, error: ValidationError) -> ConfigError:
    problems = error.errors()
    problem = problems[0]
    parameter = str(problem["loc"][0])
    if parameter.isdigit():  # passed by position; self is number 0
        parameter = list(inspect.signature(_COMPONENTS[component]).parameters)[int(parameter) - 1]
    if problem["type"] in ("missing_argument", "missing"):
        return ConfigError(f"{component}.{parameter} is not set", component, parameter)
    # A value that may be of several types has a reason from each.
    reasons = dict.fromkeys(
        p["msg"].removeprefix("Input ").replace("an instance of ", "a ")
        for p in problems
        if p["loc"][0] == problem["loc"][0] and p["input"] is problem["input"]
    )
    reason = ", or ".join(reasons).replace(", or should be ", ", or ")
    return ConfigError(
        f"{component}.{parameter} = {problem['input']!r}: {reason}", component, parameter
    )


@dataclasses.dataclass(frozen=True)
class Binding:
    """One `scope/selector.parameter = value` line and where it stands."""

    scope: str
    selector: str
    parameter: str  # "" for a macro
    value: Any
    file: str
    line: int

    @property
    def name(self) -> str:
        """The left-hand side as the user wrote it."""
        scoped = f"{self.scope}/{self.selector}" if self.scope else self.selector
        return f"{scoped}.{self.parameter}" if self.parameter else scoped

    @property
    def origin(self) -> str:
        """`file:line`, or the command line."""
        return f"{self.file}:{self.line}" if self.file else "--gin_bindings"


@dataclasses.dataclass(frozen=True)
class _Macro:
    name: str

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclasses.dataclass(frozen=True)
class _Reference:
    selector: str
    called: bool = True  # `@Name()`; `@Name` hands the class itself on

    def __repr__(self) -> str:
        return f"@{self.selector}"


class _ScanDelegate(config_parser.ParserDelegate):
    """Keeps references as marks: a scan evaluates nothing."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> _Reference:
        return _Reference(scoped_configurable_name.rpartition("/")[2], evaluate)

    def macro(self, macro_name: str) -> _Macro:
        return _Macro(macro_name)


@dataclasses.dataclass
class Scan:
    """What a set of gin files says, without having run any of it."""

    bindings: list[Binding] = dataclasses.field(default_factory=list)
    imports: dict[str, str] = dataclasses.field(default_factory=dict)  # module -> file:line
    files: list[str] = dataclasses.field(default_factory=list)
    text: list[str] = dataclasses.field(default_factory=list)  # all lines, includes in place

    def find(self, component: str, parameter: str) -> Binding | None:
        """The binding in force for `component.parameter`, a macro followed to its value."""
        for binding in reversed(self.bindings):
            selector = binding.selector.rpartition(".")[2]
            if (selector, binding.parameter) == (component, parameter):
                while isinstance(binding.value, _Macro):
                    macro = binding.value.name
                    source = [b for b in self.bindings if b.name == macro]
                    if not source:
                        break
                    binding = source[-1]
                return binding
        return None


def scan(gin_files: Iterable[str], bindings: Sequence[str] = ()) -> Scan:
    """Read files (with their includes) and bindings without executing imports or references.

    Raises:
      ConfigError: a file is missing or is not valid gin.
    """
    found = Scan()
    for file in gin_files:
        _scan_file(file, found)
    _scan_text("\n".join(bindings), "", found)
    return found


def _scan_file(path: str, found: Scan, origin: str = "") -> None:
    where = f"{origin}: " if origin else ""
    if os.path.isdir(path):
        raise ConfigError(f"{where}{path} is a folder, not a gin file")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        folder = os.path.dirname(path) or "."
        names = (
            [n for n in os.listdir(folder) if n.endswith(".gin")] if os.path.isdir(folder) else []
        )
        hint = _nearest(os.path.basename(path), names)
        raise ConfigError(f"{where}no such gin file: {path}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}can't read {path}: {error}") from None
    if path in found.files:
        raise ConfigError(f"{where}{path} is included twice")
    found.files.append(path)
    _scan_text(text, path, found)


def _scan_text(text: str, file: str, found: Scan) -> None:
    place = file or "--gin_bindings"
    lines, copied = text.splitlines(), 0
    try:
        for statement in config_parser.ConfigParser(text, _ScanDelegate()):
            if isinstance(statement, config_parser.BindingStatement):
                found.bindings.append(
                    Binding(
                        statement.scope or "",
                        statement.selector,
                        statement.arg_name or "",
                        statement.value,
                        file,
                        statement.location.line_num,
                    )
                )
            elif isinstance(statement, config_parser.ImportStatement):
                origin = f"{place}:{statement.location.line_num}" if file else place
                found.imports.setdefault(statement.module, origin)
            elif isinstance(statement, config_parser.IncludeStatement):
                line = statement.location.line_num
                found.text += lines[copied : line - 1]
                copied = line
                _scan_file(_resolve(statement.filename, file), found, f"{place}:{line}")
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise ConfigError(f"{place}:{error.lineno}: not valid gin: {line or error.msg}") from None
    except tokenize.TokenError as error:
        reason, (line_number, _) = error.args
        raise ConfigError(f"{place}:{line_number}: not valid gin: {reason}") from None
    found.text += lines[copied:]


def _resolve(include: str, file: str) -> str:
    """Includes are relative to the file that names them, or to the working directory."""
    beside = os.path.join(os.path.dirname(file), include)
    return beside if os.path.exists(beside) else include


def _nearest(name: str, candidates: Iterable[str]) -> str:
    match = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return f". Did you mean {match[0]!r}?" if match else ""


def _marks(value: Any) -> Iterator[_Macro | _Reference]:
    """The macros and references in a value, however nested."""
    if isinstance(value, _Macro | _Reference):
        yield value
    elif isinstance(value, dict):
        yield from (mark for item in value.items() for mark in _marks(item))
    elif isinstance(value, list | tuple):
        yield from (mark for item in value for mark in _marks(item))


def _check_names(found: Scan) -> None:
    macros = {b.name for b in found.bindings if not b.parameter}
    for binding in found.bindings:
        for mark in _marks(binding.value):
            if isinstance(mark, _Reference):
                _check_component(mark.selector, binding)
            elif mark.name not in macros:
                raise ConfigError(
                    f"{binding.origin}: {binding.name} = %{mark.name}, but the macro "
                    f"{mark.name!r} is not defined{_nearest(mark.name, macros)}"
                )
        if binding.parameter:
            _check_component(binding.selector, binding)
            _check_parameter(binding)


def _check_component(selector: str, binding: Binding) -> None:
    if not _registered(selector):
        hint = _nearest(selector.rpartition(".")[2], _COMPONENTS)
        raise ConfigError(f"{binding.origin}: there is no component {selector!r}{hint}")


def _check_parameter(binding: Binding) -> None:
    module, _, name = binding.selector.rpartition(".")
    if name not in _COMPONENTS or module not in ("", "acx"):
        return  # gin itself checks what acx didn't declare
    parameters = [p for p in inspect.signature(_COMPONENTS[name]).parameters if p != "self"]
    if binding.parameter not in parameters:
        hint = _nearest(binding.parameter, parameters)
        known = "" if hint else f"; it has {', '.join(parameters) or 'none'}"
        raise ConfigError(
            f"{binding.origin}: {name} has no parameter {binding.parameter!r}{hint}{known}"
        )


def _registered(selector: str) -> bool:
    try:
        gin.get_configurable(selector)
    except ValueError as error:
        return "mbiguous" in str(error)
    return True


def load(gin_files: Sequence[str], bindings: Sequence[str] = ()) -> Scan:
    """Make `gin_files`, then `bindings`, the process's configuration, replacing any other.

    Raises:
      ConfigError: a missing file, bad syntax, unknown name, undefined macro or failing import.
    """
    found = scan(gin_files, bindings)
    gin.clear_config(clear_constants=True)
    if os.getcwd() not in sys.path:  # a console script doesn't look there
        sys.path.append(os.getcwd())
    for module, origin in found.imports.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(f"{origin}: 'import {module}' failed: {error}") from None
    _check_names(found)
    try:
        gin.parse_config(found.text)
        for binding in found.bindings:
            _bind_infinities(binding)
        gin.finalize()
    except (ValueError, TypeError, ImportError, SyntaxError) as error:
        raise ConfigError(" ".join(str(error).split())) from None
    return found


class _Infinity(float):
    """An infinite float that gin can save: it is written as a literal, which `inf` is not."""

    def __repr__(self) -> str:
        return "1e999" if self > 0 else "-1e999"


def _with_infinities(value: Any) -> Any:
    """The value, its infinite floats replaced, however nested."""
    if isinstance(value, float) and math.isinf(value):
        return _Infinity(value)
    if isinstance(value, dict):
        return {_with_infinities(k): _with_infinities(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_infinities(item) for item in value)
    return value


def _bind_infinities(binding: Binding) -> None:
    """Bind a value with infinities anew, so that the saved configuration has it."""
    value = _with_infinities(binding.value)
    if repr(value) != repr(binding.value) and not any(_marks(value)):
        gin.bind_parameter(
            binding.name if binding.parameter else f"{binding.name}/macro.value", value
        )


def located(error: ConfigError, found: Scan) -> ConfigError:
    """The error with the file and line of the binding that it is about."""
    binding = found.find(error.component, error.parameter)
    where = f"{binding.origin}: " if binding else ""
    return ConfigError(f"{where}{error.message}", error.component, error.parameter)


Built = TypeVar("Built")


def build(component: type[Built], found: Scan) -> Built:
    """Construct the root component and everything it refers to from the loaded configuration.

    Raises:
      ConfigError: a value is refused, or a binding or macro is read by nothing.
    """
    try:
        built = component()
    except ConfigError as error:
        raise located(error, found) from None
    except (ValueError, TypeError, RuntimeError) as error:
        if "gin" not in str(error) and "configurable" not in str(error):
            raise
        raise ConfigError(" ".join(str(error).split())) from None
    _check_all_read(found)
    return built


def _key(binding: Binding) -> tuple[str, str, str]:
    return binding.scope, binding.selector.rpartition(".")[2], binding.parameter


def _check_all_read(found: Scan) -> None:
    operative = Scan()
    _scan_text(gin.operative_config_str(), "", operative)
    read = {_key(binding) for binding in operative.bindings}
    # What a macro refers to is built in a scope of the macro's name.
    scopes = {binding.name for binding in found.bindings if not binding.parameter}
    read |= {("", selector, name) for scope, selector, name in read if scope in scopes}
    ignored = _replaced(found) | _handed_on(found)
    for binding in found.bindings:
        if _key(binding) in read or binding.selector.rpartition(".")[2] in ignored:
            continue
        if not binding.parameter:
            macros = [b.name for b in operative.bindings if not b.parameter]
            hint = _nearest(binding.name, macros)
            raise ConfigError(f"{binding.origin}: nothing reads the macro {binding.name!r}{hint}")
        raise ConfigError(
            f"{binding.origin}: nothing reads {binding.name!r}: "
            f"no part of this experiment uses that {binding.selector}"
        )


def _replaced(found: Scan) -> set[str]:
    """Components and macros that overridden bindings refer to, directly or through others.

    Who binds `Learner.advantage = @TD()` over a base need not undo the base's `GAE.gae_lambda`.
    """
    in_force = {_key(binding): binding for binding in found.bindings}
    names: set[str] = set()
    to_follow = [b for b in found.bindings if in_force[_key(b)] is not b]
    while to_follow:
        for mark in _marks(to_follow.pop().value):
            name = mark.name if isinstance(mark, _Macro) else mark.selector.rpartition(".")[2]
            if name not in names:
                names.add(name)
                to_follow += [b for b in found.bindings if _key(b)[1] == name]
    return names


def _handed_on(found: Scan) -> set[str]:
    """Components that are given to others uncalled, such as wrappers: they are built later."""
    marks = (mark for binding in found.bindings for mark in _marks(binding.value))
    return {
        mark.selector.rpartition(".")[2]
        for mark in marks
        if isinstance(mark, _Reference) and not mark.called
    }


def resolved() -> str:
    """The full configuration in force, defaults included, as gin text that re-creates it."""
    return gin.operative_config_str()


def differences(before: str, after: str) -> list[str]:
    """What two resolved configurations disagree on, each as "name = old (now new)"."""

    def written(text: str) -> dict[str, str]:
        found = Scan()
        _scan_text(text, "", found)
        return {binding.name: repr(binding.value) for binding in found.bindings}

    old, new = written(before), written(after)
    return [
        f"{name} = {old.get(name, 'nothing')} (now {new.get(name, 'nothing')})"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def values(text: str) -> dict[str, Any]:
    """The bindings of gin text by name, macros followed to their values."""
    found = Scan()
    _scan_text(text, "", found)
    bound = {binding.name: binding.value for binding in found.bindings}

    def followed(value: Any) -> Any:
        while isinstance(value, _Macro) and value.name in bound:
            value = bound[value.name]
        return value

    return {name: followed(value) for name, value in bound.items()}


def macro(found: Scan, name: str) -> Any:
    """The value of a macro that a scan found, or None."""
    values = [b.value for b in found.bindings if b.name == name]
    return values[-1] if values else None
