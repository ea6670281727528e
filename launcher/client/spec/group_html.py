"""Instance groups as an HTML table for notebooks."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.client.show import Table, table_html

if TYPE_CHECKING:
    from launcher.client.spec.job_parts import InstanceGroup

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
