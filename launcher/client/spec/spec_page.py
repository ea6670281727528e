"""A job as an HTML table for notebooks, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.client.show import notes_html
from launcher.client.spec.group_html import groups_html, value_text
from launcher.client.spec.yaml_values import plain_values

if TYPE_CHECKING:
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
