"""Coercion of the accepted forms of a JobSpec's values to the declared types."""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client.spec.metric_definition import MetricDefinition
from launcher.client.spec.spec_names import names
from launcher.client.spec.training_inputs import FileSystemInput, TrainingInput

_TEXTS = (
    "dependencies",
    "container_entry_point",
    "container_arguments",
    "subnets",
    "security_group_ids",
)
_MAPPINGS = (
    "hyperparameters",
    "environment",
    "secrets",
    "tags",
    "instance_placement_config",
    "experiment_config",
    "tensorboard_output_config",
    "debugger_hook_config",
    "profiler_config",
    "extra_request",
)


def kept_forms(spec: Any) -> dict[str, Any]:
    """Return the fields of a JobSpec that accept several forms, coerced to their declared types."""
    return {
        **{part.name: _native(getattr(spec, part.name)) for part in dataclasses.fields(spec)},
        "instance_groups": tuple(map(_native, spec.instance_groups)),
        "inputs": _channels(spec.inputs),
        "metric_definitions": tuple(map(_metric, spec.metric_definitions)),
        **{name: names(getattr(spec, name)) for name in _TEXTS},
        **{name: plain(getattr(spec, name)) for name in _MAPPINGS},
        **{name: tuple(plain(getattr(spec, name))) for name in ("rules", "profiler_rules")},
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
