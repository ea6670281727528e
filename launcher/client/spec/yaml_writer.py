"""Conversion of a JobSpec to plain values without defaults; `yaml_reader` is the inverse."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.metric_definition import MetricDefinition
from launcher.client.spec.yaml_reader import written_fields


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
