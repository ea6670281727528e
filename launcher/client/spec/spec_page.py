"""Jobs and instance groups as HTML tables for notebooks, in the notebook's own colours."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launcher.client.show import Table, notes_html, table_html
from launcher.client.spec.yaml_values import plain_values

if TYPE_CHECKING:
    from launcher.client.spec.job_parts import InstanceGroup
    from launcher.client.spec.job_spec import JobSpec


def spec_html(spec: JobSpec) -> str:
    """Return a table of the fields, and one of the groups below it.

    Of environment variables only the names are shown: a notebook is kept, and may be shared.
    """
    values = plain_values(spec)
    values.pop("instance_groups", None)
    fields = notes_html((name, _shown(name, value)) for name, value in values.items())
    return fields + (groups_html(spec.instance_groups) if spec.instance_groups else "")


def _shown(name: str, value: Any) -> str:
    if name == "environment" and isinstance(value, Mapping):
        return ", ".join(value)
    if isinstance(value, Mapping):
        return ", ".join(_named(value)) or "{}"
    return value_text(value)


def _named(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{name} = {value_text(value)}"


_ALWAYS = ("instance_group_name", "instance_type", "instance_count")
#: Characters of a value that are shown.
_LENGTH = 200


def groups_html(groups: Sequence[InstanceGroup]) -> str:
    """Return a table with a row for each group, and a column for each field that one has set."""
    columns = [
        part.name
        for part in dataclasses.fields(groups[0])
        if part.name in _ALWAYS or any(getattr(group, part.name) for group in groups)
    ]
    rows = [[value_text(getattr(group, name) or "") for name in columns] for group in groups]
    return table_html(Table(columns=columns, rows=rows))


def value_text(value: object) -> str:
    """Return text as it is, and other values as JSON; shortened."""
    if isinstance(value, enum.Enum):
        value = value.value
    text = (
        value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False)
    )
    return text if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.asdict(value).items()
        return {name: each for name, each in fields if each is not None}
    return str(value)
