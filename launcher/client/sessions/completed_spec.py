"""Completion of a job before it is sent: defaults from files, their sources, and source in S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.client import catalogue
from launcher.client.sessions.base import Platform, PlatformSession
from launcher.client.sessions.default_values import DEFAULT_FIELDS, DefaultValue, read_defaults
from launcher.client.spec import JobSpec
from launcher.shared import HOST_LOST

#: Another field of the job that takes the place of one with a default.
_INSTEAD = {"image_uri": ("algorithm_arn", "framework_version")}
#: AWS's limit of MaximumRetryAttempts.
_MOST_RESTARTS = 30
_OF_SESSIONS = ("default_bucket", "default_bucket_prefix", "isolation", "engine")


def completed(spec: JobSpec, session: PlatformSession, *, offline: bool = False) -> JobSpec:
    """Return the job as a session sends it; offline: without calling the session.

    Raises SpecError for a bad file of defaults and an unusable source.
    """
    spec = with_platform_defaults(spec, session.platform)
    return spec if offline else with_source(spec, session)


def with_source(spec: JobSpec, session: PlatformSession) -> JobSpec:
    """Return the job with its source on this machine; one in S3 is fetched. See `completed`.

    A job that AWS's toolkit starts is returned as it is: the toolkit fetches the archive itself.
    """
    if not (spec.has_remote_source and spec.starts_launcher):
        return spec
    from launcher.client.sessions.remote_source import sources_folder, with_fetched_source

    return with_fetched_source(spec, session, sources_folder())


def with_platform_defaults(spec: JobSpec, platform: Platform) -> JobSpec:
    """Return the job with what only jobs on AWS have: defaults from files, and AWS's own restarts.

    AWS's are after its internal errors, such as the loss of an instance; all within `max_run`.
    """
    if not platform.uses_aws:
        return spec
    spec = with_defaults(spec, read_defaults())
    more = spec.retry.attempts - 1 if spec.retry and spec.retry.covers(HOST_LOST) else 0
    if spec.max_retry_attempts is not None or more < 1:
        return spec
    return spec.replace(max_retry_attempts=min(more, _MOST_RESTARTS))


def with_defaults(spec: JobSpec, defaults: Mapping[str, DefaultValue]) -> JobSpec:
    """Return the job with the defaults of the fields that it leaves open; tags are merged."""
    applied = {name: defaults[name].value for name in applied_defaults(spec, defaults)}
    if "tags" in applied:
        applied["tags"] = {**applied["tags"], **spec.tags}
    return spec.replace(**applied) if applied else spec


def applied_defaults(spec: JobSpec, defaults: Mapping[str, DefaultValue]) -> tuple[str, ...]:
    """Return the fields of a job that get their default."""
    return tuple(name for name in defaults if name not in _OF_SESSIONS and _is_open(spec, name))


def _is_open(spec: JobSpec, name: str) -> bool:
    if name == "tags":
        return True
    if name == "volume_kms_key" and _has_local_storage(spec):
        return False
    fields: tuple[Any, ...] = (name, *_INSTEAD.get(name, ()))
    return not any(_is_given(getattr(spec, field)) for field in fields)


def _is_given(value: object) -> bool:
    """Return whether a job says something: False is an answer, an empty text or list is none."""
    return value is False or bool(value)


def _has_local_storage(spec: JobSpec) -> bool:
    """Return whether hosts have NVMe disks, to which SageMaker attaches no volume with a key."""
    known = (catalogue.find(group.instance_type) for group in spec.groups)
    return any(each is not None and each.has_local_storage for each in known)


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
        if _is_given(getattr(spec, field)):
            places.insert(0, job_file)
        source = ", ".join(places) or "the job leaves it open"
        value = getattr(sent, field) if _is_given(getattr(sent, field)) else None
        value = list(value) if isinstance(value, tuple) else value
        yield ValueSource(field=field, value=value, source=source)


def _default_source(field: str, default: DefaultValue | None) -> ValueSource:
    if default is None:
        return ValueSource(field=field, value=None, source="no default")
    return ValueSource(field=field, value=default.value, source=_place(default))


def _place(default: DefaultValue) -> str:
    return f"{default.file}: {default.key}"
