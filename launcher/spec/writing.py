"""A JobSpec as plain values, without what has its default; `reading` gives an equal one back."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from launcher.spec.distribution import WORDS, Toolkit
from launcher.spec.metrics import MetricDefinition
from launcher.spec.reading import written_fields


def plain_values(value: Any) -> Any:
    """The value as mappings, lists, texts and numbers."""
    if isinstance(value, MetricDefinition):
        return {"Name": value.name, "Regex": value.regex}
    if word := WORDS.get(type(value)):
        return {word: _changed_fields(value)}
    if isinstance(value, Toolkit):
        return plain_values(value.strategies)
    if dataclasses.is_dataclass(value):
        return _changed_fields(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    return value


def _changed_fields(value: Any) -> dict[str, Any]:
    """The fields that differ from their default, which includes all that have none."""
    fields = [(part, getattr(value, part.name)) for part in written_fields(value)]
    return {part.name: plain_values(held) for part, held in fields if held != _default(part)}


def _default(part: dataclasses.Field[Any]) -> Any:
    if part.default_factory is not dataclasses.MISSING:
        return part.default_factory()
    return part.default
