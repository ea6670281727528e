"""Overrides of a document's fields, such as "hyperparameters.epochs=1"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from launcher.client.spec.yaml_values import YamlReading
from launcher.errors import FieldPath


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
