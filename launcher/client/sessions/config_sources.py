"""Sources of the values that may have a default: a file of defaults, or the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launcher.client.sessions.completed_spec import applied_defaults, is_given, with_defaults
from launcher.client.sessions.default_values import DEFAULT_FIELDS, DefaultValue
from launcher.client.spec import JobSpec


@dataclass(frozen=True, kw_only=True)
class ValueSource:
    """The value of a field, None without one, and where it comes from as text."""

    field: str
    value: object
    source: str


def default_sources(defaults: Mapping[str, DefaultValue]) -> Iterator[ValueSource]:
    """Yield the default of each field that may have one."""
    for field in DEFAULT_FIELDS:
        yield _default_source(field, defaults.get(field))


def value_sources(
    spec: JobSpec, job_file: str, defaults: Mapping[str, DefaultValue]
) -> Iterator[ValueSource]:
    """Yield the value that a job is sent with, of each field that may have a default."""
    sent, applied = with_defaults(spec, defaults), applied_defaults(spec, defaults)
    for field in DEFAULT_FIELDS:
        if not hasattr(spec, field):  # a default of sessions, not of jobs
            yield _default_source(field, defaults.get(field))
            continue
        places = [_place(defaults[field])] if field in applied else []
        if is_given(getattr(spec, field)):
            places.insert(0, job_file)
        source = ", ".join(places) or "the job leaves it open"
        value = getattr(sent, field) if is_given(getattr(sent, field)) else None
        value = list(value) if isinstance(value, tuple) else value
        yield ValueSource(field=field, value=value, source=source)


def _default_source(field: str, default: DefaultValue | None) -> ValueSource:
    if default is None:
        return ValueSource(field=field, value=None, source="no default")
    return ValueSource(field=field, value=default.value, source=_place(default))


def _place(default: DefaultValue) -> str:
    return f"{default.file}: {default.key}"
