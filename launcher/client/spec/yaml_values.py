"""Conversion of plain YAML or JSON values to a JobSpec and back, driven by the declared types.

The dataclasses are the only list of fields: a field added there is readable and written here.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.distributions.registry import (
    DEFAULT,
    distribution_words,
    fix_of_distribution,
    kind_of,
)
from launcher.client.spec.field_hints import (
    NOT_TAKEN,
    as_hyperparameter,
    duration_in_seconds,
    meant_field,
    named_groups_as_list,
)
from launcher.client.spec.job_parts import (
    DataService,
    FileSystemInput,
    InstanceGroup,
    MetricDefinition,
    Retry,
    Tracking,
    TrainingInput,
)
from launcher.errors import FieldPath, Problem
from launcher.shared import Ready, choice_fix, did_you_mean, shown

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


#: Names of the types in error messages; the job itself is the one that is not listed.
_NOUNS: dict[Any, str] = {
    InstanceGroup: "an instance group",
    Ready: "a sign of readiness",
    TrainingInput: "an input",
    FileSystemInput: "an input from a file system",
    Retry: "retry",
    DataService: "data_service",
    MetricDefinition: "a metric definition",
    Tracking: "tracking",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
#: AWS's own keys of a metric definition, and our fields.
METRIC_KEYS = {"Name": "name", "Regex": "regex"}
#: Fields that are a number of seconds.
_DURATIONS = ("max_run", "max_wait", "keep_alive_period_in_seconds", "backoff", "seconds")
#: Placeholder of a value that could not be read; YamlReading holds the reason.
_UNREAD: Any = object()


@dataclass
class YamlReading:
    """The problems found while values are read.

    broken: fields whose value is not what the author meant; the rules skip them.
    typed: the values of --set as typed, so that a string field keeps 2.10 unchanged.
    """

    problems: list[Problem] = field(default_factory=list)
    broken: set[FieldPath] = field(default_factory=set)
    typed: dict[FieldPath, str] = field(default_factory=dict)

    def reject(self, path: FieldPath, what: str, fix: str) -> Any:
        """Record a problem, mark the field as broken and return the unread placeholder."""
        self.problems.append(Problem(path=path, what=what, fix=fix))
        self.broken.add(path)
        return _UNREAD

    def is_read(self, value: object) -> bool:
        """Return False for the placeholder of a value that was rejected."""
        return value is not _UNREAD


def read_spec(
    declared: type[JobSpec], values: Mapping[object, object], reading: YamlReading
) -> JobSpec:
    """Return the described job; unreadable values are left out or replaced by their defaults."""
    spec: JobSpec = _read_dataclass(declared, values, (), reading)
    return spec


def _read(declared: Any, value: Any, path: FieldPath, reading: YamlReading) -> Any:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared is Any or value is _UNREAD:
        return value
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _read(_meant(arguments, value), value, path, reading)
    if origin is Sequence:
        return _read_list(arguments[0], value, path, reading)
    if origin is not None:
        return _read_mapping(arguments[1], value, path, reading)
    if dataclasses.is_dataclass(declared):
        return _read_dataclass(declared, *_written_out(declared, value, path), reading)
    if issubclass(declared, enum.Enum):
        return _read_choice(declared, value, path, reading)
    return _read_scalar(declared, value, path, reading)


def _meant(choices: tuple[object, ...], value: object) -> Any:
    """Return the union member that fits the value: X of "X | None", or a kind of input."""
    if Distribution in choices:
        return kind_of(value)
    if isinstance(value, Mapping) and typing.get_origin(choices[-1]) is Mapping:
        return choices[-1]
    is_file_system = isinstance(value, Mapping) and "file_system_id" in value
    return FileSystemInput if FileSystemInput in choices and is_file_system else choices[0]


def _read_list(declared: object, value: object, path: FieldPath, reading: YamlReading) -> Any:
    if not isinstance(value, list):
        words = value.split() if declared is str and isinstance(value, str) else [value]
        listed = f"write [{', '.join(shown(word) for word in words)}]"
        fix = (declared is InstanceGroup and named_groups_as_list(value)) or listed
        return reading.reject(path, f"{shown(value)} is not a list", fix)
    items = [_read(declared, item, (*path, index), reading) for index, item in enumerate(value)]
    return tuple(item for item in items if item is not _UNREAD)


def _read_mapping(declared: object, value: object, path: FieldPath, reading: YamlReading) -> Any:
    if not isinstance(value, Mapping):
        return reading.reject(path, f"{shown(value)} is not a mapping", "write key: value pairs")
    read = {}
    for key, item in value.items():
        here = (*path, str(key))
        if isinstance(key, str):
            read[key] = _read(declared, item, here, reading)
        else:
            reading.reject(here, f"the key {shown(key)} is not text", f'write "{key}"')
    return {key: item for key, item in read.items() if item is not _UNREAD}


def _read_dataclass(declared: Any, value: Any, path: FieldPath, reading: YamlReading) -> Any:
    if not isinstance(value, Mapping):
        fix = fix_of_distribution(declared, str(value)) or _example(declared)
        return reading.reject(path, f"{shown(value)} is not {_noun(declared)}", fix)
    hints = typing.get_type_hints(declared)
    _reject_unknown_keys(declared, value, path, reading)
    read = {}
    for part in written_fields(declared):
        here = (*path, part.name)
        if value.get(part.name) is not None:
            read[part.name] = _read(hints[part.name], value[part.name], here, reading)
        elif is_required(part) and not reading.broken & {here, ()}:
            reading.reject(here, f'"{part.name}" is missing', f'write "{part.name}: ..."')
        if is_required(part) and read.get(part.name, _UNREAD) is _UNREAD:
            read[part.name] = ""  # every required field is a string
    return declared(**{name: item for name, item in read.items() if item is not _UNREAD})


def _written_out(declared: Any, value: Any, path: FieldPath) -> tuple[Any, FieldPath]:
    """Expand a value's short form; return the full value and the path of its fields."""
    if declared is TrainingInput and isinstance(value, str):
        return {"s3_data": value}, path
    if declared is MetricDefinition and isinstance(value, Mapping):
        return {METRIC_KEYS.get(key, key): item for key, item in value.items()}, path
    return declared.expanded(value, path) if _is_distribution(declared) else (value, path)


def _is_distribution(declared: object) -> bool:
    return isinstance(declared, type) and issubclass(declared, Distribution)


def _reject_unknown_keys(
    declared: Any, value: Mapping[Any, Any], path: FieldPath, reading: YamlReading
) -> None:
    known = [part.name for part in written_fields(declared)]
    for written, argument in value.items():
        key = str(written)
        if key not in known:
            what = f'"{key}" is not a field of {_noun(declared)}'
            if fix := NOT_TAKEN.get(key) or fix_of_distribution(declared, key):
                reading.reject((*path, key), what, fix)
                continue
            unused = [name for name in known if name not in value]
            meant = meant_field(key)
            near = meant if meant in unused else did_you_mean(key, unused)
            similar = near or did_you_mean(key, known)
            fix = _fix_of_unknown(declared, key, argument, similar, value)
            reading.reject((*path, key), what, fix)
            reading.broken.update({(*path, near)} if near else ())


def _fix_of_unknown(
    declared: object, key: str, argument: object, near: str | None, value: Mapping[object, object]
) -> str:
    parameters = value.get("hyperparameters")
    if isinstance(parameters, Mapping) and key in parameters:
        return f'did you mean "hyperparameters.{key}"?'
    if near:
        return f'did you mean "{near}"?'
    has_script = any(part.name == "hyperparameters" for part in written_fields(declared))
    own = as_hyperparameter(key, argument) if has_script else None
    return own or _known_fields(declared)


def _read_choice(declared: Any, value: Any, path: FieldPath, reading: YamlReading) -> Any:
    known = [member.value for member in declared]
    if value in known:
        return declared(value)
    what = f"{shown(value)} is not a {declared.__name__.lower()}"
    return reading.reject(path, what, choice_fix(value, known))


def _read_scalar(declared: Any, value: Any, path: FieldPath, reading: YamlReading) -> Any:
    if isinstance(value, declared) and (declared is bool or not isinstance(value, bool)):
        return value
    fix = f"write {_noun(declared)}"
    if path[-1] in _DURATIONS:
        fix = duration_in_seconds(value) or fix
    if declared is str and isinstance(value, bool | int | float):
        if path in reading.typed:
            return reading.typed[path]
        fix = f'write it in quotes: "{shown(value)}"'
    return reading.reject(path, f"{shown(value)} is not {_noun(declared)}", fix)


def written_fields(declared: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields that a document may contain: those that take part in comparison."""
    return tuple(part for part in dataclasses.fields(declared) if part.compare)


def is_required(part: dataclasses.Field[object]) -> bool:
    """Return whether a dataclass field has no default."""
    missing = dataclasses.MISSING
    return part.default is missing and part.default_factory is missing


def _noun(declared: Any) -> str:
    return str(declared.noun() if _is_distribution(declared) else _NOUNS.get(declared, "a job"))


def _known_fields(declared: object) -> str:
    if declared is DEFAULT:
        return _example(declared)
    return f"known fields: {', '.join(part.name for part in written_fields(declared))}"


def _example(declared: object) -> str:
    if declared is DEFAULT:
        words = ", ".join(distribution_words())
        return f"write {words}, or {{{DEFAULT.word}: {{processes_per_host: 1}}}}"
    if declared is Ready:
        return "write {port: 50051}, {file: ready} or {seconds: 5}"
    names = ", ".join(f"{part.name}: ..." for part in written_fields(declared)[:2])
    return f"write {{{names}}}"


def plain_values(value: object) -> Any:
    """Return the value as mappings, lists, strings and numbers."""
    if isinstance(value, MetricDefinition):
        return {"Name": value.name, "Regex": value.regex}
    if isinstance(value, Distribution):
        return value.written(_changed_fields(value))
    if dataclasses.is_dataclass(value):
        return _changed_fields(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    return value


def _changed_fields(value: object) -> dict[str, Any]:
    """Return the fields that differ from their default, including those without one."""
    fields = [(part, getattr(value, part.name)) for part in written_fields(value)]
    return {part.name: plain_values(held) for part, held in fields if held != _default(part)}


def _default(part: dataclasses.Field[object]) -> Any:
    if part.default_factory is not dataclasses.MISSING:
        return part.default_factory()
    return part.default
