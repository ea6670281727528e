"""Coercion of the accepted forms of a JobSpec's values to the declared types."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.client.spec.job_parts import (
    FileSystemInput,
    MetricDefinition,
    TrainingInput,
    names,
)


def kept_forms(spec: Any) -> dict[str, Any]:
    """Return the fields of a JobSpec, coerced to their declared types where they accept others."""
    return {
        part.name: _FORMS.get(part.type, _native)(getattr(spec, part.name))
        for part in dataclasses.fields(spec)
    }


def plain(value: object) -> Any:
    """Return the value as JSON would read it back, so that round trips change nothing."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return _native_number(value)


def _native(value: Any) -> Any:
    """Convert a number, or the numbers that are fields of a dataclass; return others unchanged."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return _native_number(value)
    held = {part.name: getattr(value, part.name) for part in dataclasses.fields(value) if part.init}
    changed = {name: new for name, old in held.items() if (new := _native(old)) is not old}
    return dataclasses.replace(value, **changed) if changed else value


def _native_number(value: Any) -> Any:
    """Convert a number of another library, as numpy's, to an int or a float.

    A float of fewer bits becomes the number that it is printed as: a float32 of 0.1 is 0.1.
    """
    if hasattr(value, "__index__") and not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:  # an array, or a tensor of a float
            return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool | numbers.Rational):
        return float(value) if isinstance(value, float) else float(str(value))
    return value


def _channels(inputs: Any) -> Any:
    """Return the channels by name; the rules report what is no mapping."""
    if not isinstance(inputs, Mapping):
        return inputs
    return {name: _native(_channel(channel)) for name, channel in inputs.items()}


def _channel(channel: TrainingInput | FileSystemInput | str) -> TrainingInput | FileSystemInput:
    return TrainingInput(channel) if isinstance(channel, str) else channel


def _metric(metric: MetricDefinition | Mapping[str, str]) -> MetricDefinition:
    if isinstance(metric, Mapping) and metric.keys() == {"Name", "Regex"}:
        return MetricDefinition(metric["Name"], metric["Regex"])
    return metric  # type: ignore[return-value]  # the rules report other mappings


_FORMS: Mapping[Any, Callable[[Any], Any]] = {
    "Sequence[str]": names,
    "Sequence[InstanceGroup]": lambda groups: tuple(map(_native, groups)),
    "Sequence[MetricDefinition]": lambda metrics: tuple(map(_metric, metrics)),
    "Sequence[Mapping[str, Any]]": lambda parts: tuple(plain(parts)),
    "Mapping[str, TrainingInput | FileSystemInput]": _channels,
    **dict.fromkeys(("Mapping[str, str]", "Mapping[str, Any]", "Mapping[str, Any] | None"), plain),
}
