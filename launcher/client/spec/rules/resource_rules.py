"""Rules for the provisioning of the hosts, which Launcher itself does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.spec.field_checks import groups_with_paths, range_problems
from launcher.client.spec.groups import LOCAL_TYPES, InstanceGroup
from launcher.client.spec.rules.machine_rules import type_problems
from launcher.errors import FieldPath, Problem

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with alternative types, and with the wait for capacity."""
    for path, group in groups_with_paths(spec):
        yield from _alternative_problems(group, (*path, "alternatives"))
        yield from _key_problems(spec, group, path)
    if (retry := spec.capacity_retry) is not None:
        yield from range_problems(("capacity_retry", "attempts"), retry.attempts, 1)
        yield from range_problems(("capacity_retry", "wait_seconds"), retry.wait_seconds, 1)


def _key_problems(spec: JobSpec, group: InstanceGroup, path: FieldPath) -> Iterator[Problem]:
    """Find a volume key for an alternative; only the first type is in the request."""
    known = [catalogue.find(name) for name in group.alternatives]
    encrypted = [each.name for each in known if each is not None and each.has_local_storage]
    if spec.volume_kms_key is not None and encrypted:
        yield Problem(
            path=("volume_kms_key",),
            about=(path,),
            what=f"{encrypted[0]} has disks of its own, which no KMS key of yours can encrypt",
            fix="remove volume_kms_key (its hardware encrypts them), or use a type without NVMe",
        )


def _alternative_problems(group: InstanceGroup, path: FieldPath) -> Iterator[Problem]:
    seen = [group.instance_type]
    for index, name in enumerate(group.alternatives):
        here = (*path, index)
        if name in LOCAL_TYPES or group.is_local:
            what = f'"{name}" cannot be an alternative of "{group.instance_type}"'
            fix = "remove it: local groups need no alternatives"
            yield Problem(path=here, what=what, fix=fix)
        elif name in seen:
            yield Problem(path=here, what=f'"{name}" is listed before', fix="keep one of them")
        else:
            yield from type_problems(name, here)
        seen.append(name)
