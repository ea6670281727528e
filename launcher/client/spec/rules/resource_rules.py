"""Rules for the storage, provisioning and warm pools of the hosts.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.spec.field_checks import groups_with_paths, range_problems
from launcher.client.spec.groups import LOCAL_TYPES, InstanceGroup
from launcher.client.spec.rules.machine_rules import type_problems
from launcher.errors import FieldPath, Problem

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_KEEP_ALIVE = ("keep_alive_period_in_seconds",)
_KEEP_ALIVE_LIMIT = 6 * 60 * 60
_VOLUME_KEY, _SPOT = ("volume_kms_key",), ("use_spot_instances",)
_RETRY_LIMIT = 30
_KMS_KEY = re.compile(r"[a-zA-Z0-9:/_-]{1,2048}")
_TRAINING_PLAN = re.compile(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:training-plan/.+")


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with storage, warm pools, training plans and retries."""
    yield from _key_problems(spec)
    yield from _warm_pool_problems(spec)
    for path, group in groups_with_paths(spec):
        yield from _alternative_problems(group, (*path, "alternatives"))
    if spec.training_plan is not None and not _TRAINING_PLAN.fullmatch(spec.training_plan):
        what = f'"{spec.training_plan}" is not the ARN of a training plan'
        fix = "write arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME"
        yield Problem(path=("training_plan",), what=what, fix=fix)
    if (retries := spec.max_retry_attempts) is not None:
        yield from range_problems(("max_retry_attempts",), retries, 1, _RETRY_LIMIT)
    if (retry := spec.capacity_retry) is not None:
        yield from range_problems(("capacity_retry", "attempts"), retry.attempts, 1)
        yield from range_problems(("capacity_retry", "wait_seconds"), retry.wait_seconds, 1)


def _key_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in ("volume_kms_key", "output_kms_key"):
        key = getattr(spec, field)
        if key is not None and not _KMS_KEY.fullmatch(key):
            fix = "write its id, its ARN, or alias/NAME"
            yield Problem(path=(field,), what=f'"{key}" cannot be a KMS key', fix=fix)
    encrypted = [name for name in _types(spec) if _has_own_disks(name)]
    if spec.volume_kms_key is not None and encrypted:
        yield Problem(
            path=_VOLUME_KEY,
            about=(("instance_type",), ("instance_groups",)),
            what=f"{encrypted[0]} has disks of its own, which no KMS key of yours can encrypt",
            fix="remove volume_kms_key (its hardware encrypts them), or use a type without NVMe",
        )


def _types(spec: JobSpec) -> Iterator[str]:
    """Yield every instance type that the job may run on."""
    for group in spec.groups:
        yield from (group.instance_type, *group.alternatives)


def _has_own_disks(instance_type: str) -> bool:
    known = catalogue.find(instance_type)
    return known is not None and known.has_local_storage is True


def _warm_pool_problems(spec: JobSpec) -> Iterator[Problem]:
    seconds = spec.keep_alive_period_in_seconds
    if seconds is None:
        return
    yield from range_problems(_KEEP_ALIVE, seconds, 0, _KEEP_ALIVE_LIMIT, "seconds (6 hours)")
    if seconds == 0:  # none are kept
        return
    if spec.instance_groups:
        what = "keep_alive_period_in_seconds is given beside instance_groups"
        fix = "remove it: SageMaker keeps hosts only of a job with instance_type"
        yield Problem(path=_KEEP_ALIVE, about=(("instance_groups",),), what=what, fix=fix)
    if spec.use_spot_instances:
        yield Problem(
            path=_KEEP_ALIVE,
            about=(_SPOT,),
            what="AWS is not documented to keep spot instances in a warm pool",
            fix="remove keep_alive_period_in_seconds, or use_spot_instances",
            is_warning=True,
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
