"""`extra_request`: parts of CreateTrainingJob for which a JobSpec has no field.

It only adds to the request: mappings are merged, and the items of a list are appended. A value that
contradicts the job is an error, so that the code channel, the container's entry point and the token
are never overwritten silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.spec import JobSpec
from launcher.errors import FieldPath, Problem, SpecError, dotted
from launcher.shared import shown

#: Lists that nothing can be appended to.
_WHOLE = (
    ("AlgorithmSpecification", "ContainerEntrypoint"),
    ("AlgorithmSpecification", "ContainerArguments"),
    ("ResourceConfig", "InstanceGroups"),
)


#: The field of an item by which AWS tells the items of a list apart.
_NAMES = ("Key", "ChannelName", "Name", "RuleConfigurationName")


def add_extra(request: Mapping[str, object], spec: JobSpec) -> dict[str, Any]:
    """Merge the job's `extra_request` into the request; raise SpecError with all contradictions."""
    problems = [
        Problem(
            what=f"{dotted(path)} is set to {shown(extra)}, but the job sets another value",
            where=spec.where(("extra_request", *path)),
            fix="extra_request only adds: remove it there, or change the job's own field",
        )
        for path, extra in _contradictions(request, spec.extra_request, ())
    ]
    if problems:
        raise SpecError(problems)
    return dict(_merged(request, spec.extra_request))


def _contradictions(
    ours: object, extra: object, path: FieldPath
) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(ours, Mapping) and isinstance(extra, Mapping):
        for name in extra:
            if name in ours:
                yield from _contradictions(ours[name], extra[name], (*path, name))
    elif ours != extra and (path in _WHOLE or not _are_lists(ours, extra)):
        yield path, extra
    elif isinstance(ours, list) and isinstance(extra, list):
        known = {_name_of(item): item for item in ours}
        for index, item in enumerate(extra):
            name = _name_of(item)
            if name is not None and known.get(name, item) != item:
                yield (*path, index), item


def _merged(ours: Any, extra: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(extra, Mapping):
        both = {name: _merged(ours[name], extra[name]) for name in ours.keys() & extra.keys()}
        return {**ours, **extra, **both}
    if not _are_lists(ours, extra):
        return extra
    return [*ours, *(item for item in extra if _name_of(item) is None or item not in ours)]


def _name_of(item: object) -> str | None:
    """Return the name of an item of a list; None if it has none."""
    if not isinstance(item, Mapping):
        return None
    return next((item[field] for field in _NAMES if isinstance(item.get(field), str)), None)


def _are_lists(ours: object, extra: object) -> bool:
    return isinstance(ours, list) and isinstance(extra, list)
