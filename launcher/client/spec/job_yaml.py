"""Reading and writing of a job's YAML: problems have line numbers, and round trips are exact.

A field of the document that is read may be overridden: "hyperparameters.epochs=1".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from launcher.client.spec.bounded_yaml import (
    CORE_RESOLVERS,
    BoundedLoader,
    LimitExceeded,
    read_bounded,
)
from launcher.client.spec.resolve_paths import anchored
from launcher.client.spec.rules import Limits, examine, no_limits
from launcher.client.spec.yaml_values import YamlReading, plain_values, read_spec
from launcher.errors import FieldPath, Problem, SpecError, dotted

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_SYNTAX_FIX = "check indentation (spaces, no tabs), quotes and brackets there"
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = CORE_RESOLVERS

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote text with line breaks that PyYAML would otherwise read back as different ones."""
        style = '"' if any(character in text for character in "\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
for _kind in (bytes, set, date, datetime):  # PyYAML gives them tags, which no job file may have
    _Dumper.add_representer(_kind, _Dumper.represent_undefined)


@dataclass(frozen=True, kw_only=True)
class Places:
    """The source positions of a document's fields.

    lines: line numbers, counted from 1.
    changes: overrides given outside the document, as "path=value".
    """

    name: str | None
    lines: Mapping[FieldPath, int]
    changes: Mapping[FieldPath, str]

    def where(self, path: FieldPath) -> str:
        """Return the position of a field: "job.yaml:7 (instance_groups[1].instance_count)"."""
        if said := self._said(path):
            return f"--set {said}"
        place = f"{self.name}:{self.line(path)}" if self.name else f"line {self.line(path)}"
        return f"{place} ({dotted(path)})" if path else place

    def _said(self, path: FieldPath) -> str | None:
        """Return the change that set the field, one around it, or (for a new field) inside it."""
        nearest = self._nearest(path)
        if nearest in self.changes or path in self.lines:
            return self.changes.get(nearest)
        inside = (text for change, text in self.changes.items() if change[: len(path)] == path)
        return next(inside, None) if path else None

    def line(self, path: FieldPath) -> int:
        """Return the line of the field, or else of the nearest enclosing field in the text."""
        return self.lines.get(self._nearest(path), 1)

    def _nearest(self, path: FieldPath) -> FieldPath:
        while path and path not in self.lines and path not in self.changes:
            path = path[:-1]
        return path


@dataclass(frozen=True, kw_only=True)
class Document:
    """A parsed job document: the readable part of the job, and the errors found while parsing.

    broken: fields that the rules skip, because their value is not what the author meant.
    """

    spec: JobSpec
    problems: tuple[Problem, ...]
    broken: frozenset[FieldPath]
    places: Places

    def raise_problems(self, limits: Limits = no_limits) -> None:
        """Raise SpecError if the document has parse errors.

        The error also lists what the rules and limits find in the readable part of the job, so that
        all problems can be fixed at once.
        """
        if self.problems:
            judged = (p for p in examine(self.spec, limits) if not p.is_warning)
            problems = [*self.problems, *(p for p in judged if not p.depends_on(self.broken))]
            problems.sort(key=lambda problem: self.places.line(problem.path))
            raise SpecError(problem.located(self.places.where) for problem in problems)


def read_document(
    declared: type[JobSpec], text_or_path: str | Path, changes: Iterable[str] = ()
) -> Document:
    """Read a job's YAML: a Path, a string ending in .yaml or .yml, or the YAML itself.

    In a file, source_dir and file:// URIs are relative to the file's folder. Each change is a
    "path=value" that overrides the document.

    Raises SpecError if the file cannot be read or the text is not YAML.
    """
    path = _as_path(text_or_path)
    tree = _Tree()
    try:
        values = tree.read(_load(path) if path else str(text_or_path))
    except yaml.YAMLError as error:
        raise SpecError([_syntax_problem(error, path)]) from error
    changed = apply_changes(values, changes, read_value, tree.reading)
    places = Places(name=path.name if path else None, lines=tree.lines, changes=changed)
    spec = read_spec(declared, values, tree.reading).replace(where=places.where)
    return Document(
        spec=anchored(spec, path.parent) if path else spec,
        problems=tuple(tree.reading.problems),
        broken=frozenset(tree.reading.broken),
        places=places,
    )


def write_document(spec: JobSpec) -> str:
    """Return the job as YAML, omitting fields at their defaults.

    Raises SpecError for a hyperparameter that YAML cannot represent.
    """
    try:
        text: str = yaml.dump(
            plain_values(spec), Dumper=_Dumper, sort_keys=False, allow_unicode=True
        )
    except yaml.representer.RepresenterError as error:
        problem = Problem(
            what=f"a value cannot be written as YAML: {error.args[-1]!r}",
            where="hyperparameters",
            fix="use texts, numbers, true/false, lists and mappings",
        )
        raise SpecError([problem]) from error
    return text


class _Tree:
    """A converter of YAML nodes to plain values that records the line of each."""

    def __init__(self) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.reading = YamlReading()

    def read(self, text: str) -> dict[Any, Any]:
        """Return the document's mapping. Raises yaml.YAMLError."""
        value = self.read_value(text)
        if isinstance(value, dict):
            return value
        what = "the document does not describe a job"
        self.reading.reject((), what, 'write its fields, such as "entry_point: train.py"')
        return {}

    def read_value(self, text: str) -> Any:
        """Return the document's value, or None if it is empty. Raises yaml.YAMLError."""
        self._loader = BoundedLoader(text)
        node = self._loader.get_single_node()
        return self._value(node, (), ()) if node else None

    def _value(self, node: yaml.Node, path: FieldPath, around: tuple[yaml.Node, ...]) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._loader.count_value(node.start_mark)
        if node in around:
            return self.reading.reject(path, "the value contains itself", "remove the alias")
        around = (*around, node)
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
            return self.reading.reject(path, f"{node.tag} is not a plain value", "remove the tag")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, around)
        if isinstance(node, yaml.SequenceNode):
            items = [
                self._value(item, (*path, index), around) for index, item in enumerate(node.value)
            ]
            return [item for item in items if self.reading.is_read(item)]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: FieldPath) -> Any:
        assert isinstance(node, yaml.ScalarNode)
        if what := self._loader.scalar_problem(node):
            return self.reading.reject(path, what, "write a text, a number, or true or false")
        return self._loader.construct_object(node)

    def _mapping(
        self, node: yaml.MappingNode, path: FieldPath, around: tuple[yaml.Node, ...]
    ) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.reading.reject(path, "a key is not text", "write key: value")
                continue
            key = self._scalar(key_node, path)
            if not self.reading.is_read(key):
                continue
            here = (*path, str(key))
            first = self.lines.get(here)
            self.lines[here] = key_node.start_mark.line + 1
            if key in values:
                what = f'"{key}" is written twice, first on line {first}'
                self.reading.reject(here, what, "keep one of them")
            else:
                values[key] = self._value(value_node, here, around)
        return {key: value for key, value in values.items() if self.reading.is_read(value)}


@dataclass(frozen=True, kw_only=True)
class PlainDocument:
    """The plain values of a YAML file, which may be of any kind, with the problems of its text."""

    value: Any
    problems: tuple[Problem, ...]
    places: Places


def read_plain(path: Path) -> PlainDocument:
    """Read a YAML file as plain values.

    Raises SpecError if it is not YAML or no UTF-8 text, and OSError if it cannot be read.
    """
    tree = _Tree()
    try:
        value = tree.read_value(read_bounded(path))
    except UnicodeDecodeError as error:
        raise SpecError([_encoding_problem(path, error)]) from error
    except yaml.YAMLError as error:
        raise SpecError([_syntax_problem(error, path)]) from error
    places = Places(name=path.name, lines=tree.lines, changes={})
    return PlainDocument(value=value, problems=tuple(tree.reading.problems), places=places)


def read_value(text: str) -> Any:
    """Parse a value the way a document would be parsed. Raises ValueError."""
    tree = _Tree()
    try:
        return tree.read_value(text)
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or str(error)) from error


def _as_path(text_or_path: str | Path) -> Path | None:
    if isinstance(text_or_path, Path):
        return text_or_path
    is_name = "\n" not in text_or_path and text_or_path.endswith((".yaml", ".yml"))
    return Path(text_or_path) if is_name else None


def _load(path: Path) -> str:
    if path.suffix == ".py" and path.is_file():
        fix = f"`launcher run {path} --save job.yaml` writes one that runs it"
        what = f"{path} is a script, not a job file"
        raise SpecError([Problem(what=what, where=str(path.parent.absolute()), fix=fix)])
    try:
        return read_bounded(path)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
        fix = (
            "check the name; `launcher init` writes a first job, `launcher run train.py` needs none"
        )
        problem = Problem(what=what, where=str(path.parent.absolute()), fix=fix)
        raise SpecError([problem]) from error
    except UnicodeDecodeError as error:
        raise SpecError([_encoding_problem(path, error)]) from error


def _encoding_problem(path: Path, error: UnicodeDecodeError) -> Problem:
    what = f"{path} is not UTF-8 text (byte {error.start})"
    return Problem(what=what, where=str(path), fix="save it as UTF-8")


def _position(path: Path | None, line: int, column: int) -> str:
    return f"{path.name}:{line}:{column}" if path else f"line {line}, column {column}"


def _syntax_problem(error: yaml.YAMLError, path: Path | None) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what, fix = f"not YAML: {getattr(error, 'problem', None) or error}", _SYNTAX_FIX
    if isinstance(error, LimitExceeded):
        what, fix = f"no job file: {error.problem}", "write the job itself, without repetition"
    where = _position(path, mark.line + 1, mark.column + 1) if mark else str(path or "the text")
    return Problem(what=what, where=where, fix=fix)


def apply_changes(
    values: dict[object, object],
    changes: Iterable[str],
    parse: Callable[[str], Any],
    reading: YamlReading,
) -> dict[FieldPath, str]:
    """Apply each change to the values in place; return the text of the change by field.

    A path consists of field names, list positions and names of instance groups. A name with dots
    is found where the document has it: "hyperparameters.optim.lr" is "optim.lr", else "lr" in
    "optim".
    """
    said: dict[FieldPath, str] = {}
    for change in changes:
        path, what, fix = _apply(values, change, parse)
        said[path] = change
        reading.typed[path] = change.partition("=")[2].strip()
        if what:
            reading.reject(path, what, fix)
    return said


def _apply(
    values: dict[object, object], change: str, parse: Callable[[str], Any]
) -> tuple[FieldPath, str, str]:
    """Apply one change; return its path, the problem and the fix (both "" on success)."""
    written, equals, text = change.partition("=")
    path: FieldPath = ()
    place: Any = values
    names = written.split(".")
    if not equals or not all(names):
        return (written,), "it is not path=value", "write for example hyperparameters.epochs=1"
    while True:
        count = _length_of_key(place, names)
        name, names = ".".join(names[:count]), names[count:]
        step = _step(place, name)
        if step is None:
            return (*path, name), *_nothing_there(place, name)
        path = (*path, step)
        if not names:
            break
        if isinstance(place, dict) and place.get(step) is None:
            place[step] = {}
        place = place[step]
    try:
        place[step] = parse(text)
    except ValueError as error:
        return path, f"the value is not YAML: {error}", "quote it"
    return path, "", ""


def _length_of_key(place: object, names: Sequence[str]) -> int:
    """Return how many names, joined by dots, are a key or a group that `place` has; else 1."""
    for count in range(len(names), 1, -1):
        joined = ".".join(names[:count])
        if joined in place if isinstance(place, dict) else _step(place, joined) is not None:
            return count
    return 1


def _step(place: object, name: str) -> str | int | None:
    """Return the key or list position in `place` that `name` refers to, or None."""
    if isinstance(place, dict):
        return name
    for index, item in enumerate(place if isinstance(place, list) else ()):
        if name == str(index) or (
            isinstance(item, dict) and item.get("instance_group_name") == name
        ):
            return index
    return None


def _nothing_there(place: object, name: str) -> tuple[str, str]:
    what = f'there is nothing called "{name}" there'
    if not isinstance(place, list):
        return what, "shorten the path"
    names = [item.get("instance_group_name") for item in place if isinstance(item, dict)]
    known = [str(known) for known in names if known] or [str(i) for i in range(len(place))]
    return what, f"use one of {', '.join(known)}" if known else "the list is empty"
