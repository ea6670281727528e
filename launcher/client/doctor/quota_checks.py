"""Quotas: how many instances of each type the account may use at once for training jobs.

SageMaker's quotas are named "ml.g5.xlarge for training job usage", and for spot instances "...for
spot training job usage". Their codes differ by type, so the list is read until every type of the
job was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import translate_errors
from launcher.client.spec import JobSpec
from launcher.errors import CloudError

_finding = partial(CheckSection.AWS.finding, "quota")

_ON_DEMAND, _SPOT = " for training job usage", " for spot training job usage"
#: The largest page that the API allows.
_PAGE = 100
#: Pages that are read; tokens without an end make any number.
_MOST_PAGES = 200


def check(connection: Connection, spec: JobSpec) -> Iterator[CheckResult]:
    """Yield a finding for each instance type of the job."""
    wanted: Counter[str] = Counter()
    for group in spec.groups:
        if not group.is_local:
            wanted[group.instance_type] += group.instance_count
    if not wanted:
        return
    suffix = _SPOT if spec.use_spot_instances else _ON_DEMAND
    try:
        allowed = _read(connection, {name + suffix for name in wanted})
    except CloudError as error:
        yield _finding(Level.WARNING, f"cannot be checked from here ({error.headline})")
        return
    for instance_type, count in wanted.items():
        quota = instance_type + suffix
        yield _check_quota(instance_type, count, quota, allowed.get(quota))


def _read(connection: Connection, wanted: set[str]) -> dict[str, int]:
    """Return the quotas with these names, as far as the account has them."""
    found: dict[str, int] = {}
    with translate_errors():
        pages = connection.client("service-quotas").get_paginator("list_service_quotas")
        some = pages.paginate(ServiceCode="sagemaker", PaginationConfig={"PageSize": _PAGE})
        for page in islice(some, _MOST_PAGES):
            for quota in page["Quotas"]:
                if quota.get("QuotaName") in wanted and "Value" in quota:
                    found[quota["QuotaName"]] = int(quota["Value"])
            if found.keys() == wanted:
                break
    return found


def _check_quota(instance_type: str, count: int, quota: str, allowed: int | None) -> CheckResult:
    if allowed is None:
        return _finding(Level.WARNING, f"{instance_type}: the account has no quota of this name")
    usage = f"{instance_type}: {allowed} at a time; the job needs {count}"
    if count <= allowed:
        return _finding(Level.OK, usage)
    fix = f'request an increase in the Service Quotas console: "{quota}"'
    return _finding(Level.PROBLEM, usage, fix)
