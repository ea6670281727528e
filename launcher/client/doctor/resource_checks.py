"""Checks of what a job names on AWS: its role, its image, its buckets and its instances.

SageMaker must be trusted to assume the role. The buckets must be in the job's region. A quota says
how many instances of a type the account may use at once: "ml.g5.xlarge for training job usage", and
for spot instances "... for spot training job usage". Codes of quotas differ by type, so the list is
read until every type of the job was found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import (
    BUCKET_DENIED,
    NO_BUCKET,
    assumed_role,
    bucket_and_key,
    foreign_response,
    is_s3,
    translate_errors,
)
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Refused

_of_role = partial(CheckSection.AWS.finding, "role")
_of_image = partial(CheckSection.AWS.finding, "image")
_of_bucket = partial(CheckSection.AWS.finding, "bucket")
_of_quota = partial(CheckSection.AWS.finding, "quota")

_SAGEMAKER = "sagemaker.amazonaws.com"
_ARN = re.compile(r"arn:[^:]+:iam::(?P<account>\d+):role/(?:.+/)?(?P<name>[^/]+)")
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@]+)(:(?P<tag>[^@]+))?(@(?P<digest>sha256:[0-9a-f]+))?"
)
_ON_DEMAND, _SPOT = " for training job usage", " for spot training job usage"
#: The largest page that the API allows.
_PAGE = 100
#: Pages that are read; tokens without an end make any number.
_MOST_PAGES = 200


# Role ---------------------------------------------------------------------------------------------


def check_role(connection: Connection, role: str | None, caller: str) -> CheckResult:
    """Check a job's role, given by name or ARN; if it names none, the caller's own role."""
    role_name = role or assumed_role(caller)  # a notebook and its jobs share a role
    if role_name is None:
        return _of_role(
            Level.WARNING,
            "the job names none, and your identity is not a role that the job could use",
            "set role: ARN in the job file",
        )
    note = "" if role else " (assumed: your own role)"
    arn = _ARN.fullmatch(role_name)
    if arn and arn["account"] not in caller.split(":"):
        return _of_role(
            Level.WARNING, f"{role_name} is in another account and cannot be checked from here"
        )
    try:
        with translate_errors():
            response = connection.client("iam").get_role(RoleName=arn["name"] if arn else role_name)
    except Refused as error:
        return _no_role(role_name + note, error)
    except CloudError as error:
        return _of_role(Level.WARNING, f"{role_name} cannot be checked from here: {error.headline}")
    return _check_trust(role_name + note, response["Role"])


def _no_role(role_name: str, error: Refused) -> CheckResult:
    if error.code == "NoSuchEntity":
        return _of_role(
            Level.PROBLEM,
            f"the role {role_name} does not exist",
            f"use an existing role that trusts {_SAGEMAKER}",
        )
    return _of_role(Level.WARNING, f"{role_name} cannot be checked from here ({error.headline})")


def _check_trust(role_name: str, role: Mapping[str, Any]) -> CheckResult:
    policy = role.get("AssumeRolePolicyDocument")
    statements = policy.get("Statement", []) if isinstance(policy, Mapping) else []
    if any(_trusts_sagemaker(statement) for statement in _as_list(statements)):
        return _of_role(Level.OK, f"{role_name}, which SageMaker may assume")
    return _of_role(
        Level.PROBLEM,
        f"{role_name} does not trust SageMaker: no statement allows {_SAGEMAKER} to assume it",
        f'add {{"Service": "{_SAGEMAKER}"}} as a Principal for sts:AssumeRole in its trust policy',
    )


def _trusts_sagemaker(statement: object) -> bool:
    if not isinstance(statement, Mapping):
        return False
    principal = statement.get("Principal", {})
    services = _as_list(principal.get("Service", [])) if isinstance(principal, Mapping) else []
    actions = _as_list(statement.get("Action", []))
    return (
        statement.get("Effect") == "Allow"
        and _SAGEMAKER in services
        and any(action in ("sts:AssumeRole", "sts:*", "*") for action in actions)
    )


def _as_list(value: object) -> list[Any]:
    """Return a list; IAM omits the list around a single item."""
    return value if isinstance(value, list) else [value]


# Image --------------------------------------------------------------------------------------------


def check_image(connection: Connection, uri: str) -> CheckResult:
    """Check that the image exists; other registries than ECR are not checked."""
    match = _ECR.fullmatch(uri)
    if match is None:
        return _of_image(Level.WARNING, f"{uri} is not checked: it is not in ECR")
    try:
        with translate_errors():
            response = connection.client("ecr", match["region"]).describe_images(
                registryId=match["account"],
                repositoryName=match["repository"],
                imageIds=[_image_id(match)],
            )
        if not response["imageDetails"]:
            raise foreign_response("DescribeImages", "describes no image")
    except Refused as error:
        return _no_image(uri, error)
    except CloudError as error:
        return _of_image(Level.WARNING, f"{uri} cannot be checked from here: {error.headline}")
    return _image_found(connection, uri, match["region"], response["imageDetails"][0])


def _image_id(match: re.Match[str]) -> dict[str, str]:
    if match["digest"]:
        return {"imageDigest": match["digest"]}
    return {"imageTag": match["tag"] or "latest"}


def _no_image(uri: str, error: Refused) -> CheckResult:
    if error.code in ("RepositoryNotFoundException", "ImageNotFoundException"):
        return _of_image(
            Level.PROBLEM,
            f"{uri} does not exist ({error.headline})",
            "push it, or correct image_uri: account, region, repository and tag",
        )
    return _of_image(Level.WARNING, f"{uri} cannot be checked from here ({error.headline})")


def _image_found(
    connection: Connection, uri: str, region: str, details: dict[str, Any]
) -> CheckResult:
    if connection.region not in (None, region):
        return _of_image(
            Level.WARNING,
            f"{uri} is in {region}, but your region is {connection.region}",
            "use an image in the region of the job",
        )
    size = details.get("imageSizeInBytes", 0) / 2**30
    return _of_image(Level.OK, f"{uri}, {size:.1f} GiB compressed")


# Buckets ------------------------------------------------------------------------------------------


def check_buckets(connection: Connection, spec: JobSpec) -> Iterator[CheckResult]:
    """Yield a finding for each bucket that the job names; without any, the default one is used."""
    for bucket, field in _buckets_of(spec).items():
        yield _check_bucket(connection, bucket, field)


def _buckets_of(spec: JobSpec) -> dict[str, str]:
    """Return each bucket with the first field that names it."""
    named: dict[str, str] = {}
    for field, uri in spec.uris.items():
        if is_s3(uri):
            named.setdefault(bucket_and_key(uri)[0], field.removesuffix(".s3_data"))
    return named


def _check_bucket(connection: Connection, bucket: str, field: str) -> CheckResult:
    try:
        with translate_errors():
            response = connection.client("s3").head_bucket(Bucket=bucket)
    except Refused as error:
        return _no_bucket(bucket, field, error)
    except CloudError as error:
        return _of_bucket(Level.WARNING, f"{bucket} cannot be checked from here: {error.headline}")
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    region = response.get("BucketRegion") or headers.get("x-amz-bucket-region")
    if region and connection.region not in (None, region):
        return _other_region(bucket, region, connection.region)
    return _of_bucket(Level.OK, f"{bucket}{f', in {region}' if region else ''}")


def _other_region(bucket: str, region: str, own: str | None) -> CheckResult:
    return _of_bucket(
        Level.PROBLEM,
        f"{bucket} is in {region}, but the job would run in {own}: both must be in one region",
        f"use a bucket in {own}, or export AWS_DEFAULT_REGION={region}",
    )


def _no_bucket(bucket: str, field: str, error: Refused) -> CheckResult:
    if error.code in NO_BUCKET:
        return _of_bucket(
            Level.PROBLEM,
            f"the bucket {bucket} ({field}) does not exist",
            f"create it (aws s3 mb s3://{bucket}), or correct {field}",
        )
    if error.code in BUCKET_DENIED:
        return _of_bucket(
            Level.WARNING,
            f"{bucket} ({field}) cannot be checked from here: it is in another account, or you "
            "may not list it (the job's role may)",
        )
    return _of_bucket(Level.WARNING, f"{bucket} cannot be checked from here ({error.headline})")


# Quotas -------------------------------------------------------------------------------------------


def check_quotas(connection: Connection, spec: JobSpec) -> Iterator[CheckResult]:
    """Yield a finding for each instance type of the job."""
    wanted: Counter[str] = Counter()
    for group in spec.groups:
        if not group.is_local:
            wanted[group.instance_type] += group.instance_count
    if not wanted:
        return
    suffix = _SPOT if spec.use_spot_instances else _ON_DEMAND
    try:
        allowed = _read_quotas(connection, {name + suffix for name in wanted})
    except CloudError as error:
        yield _of_quota(Level.WARNING, f"cannot be checked from here ({error.headline})")
        return
    for instance_type, count in wanted.items():
        quota = instance_type + suffix
        yield _check_quota(instance_type, count, quota, allowed.get(quota))


def _read_quotas(connection: Connection, wanted: set[str]) -> dict[str, int]:
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
        return _of_quota(Level.WARNING, f"{instance_type}: the account has no quota of this name")
    usage = f"{instance_type}: {allowed} at a time; the job needs {count}"
    if count <= allowed:
        return _of_quota(Level.OK, usage)
    fix = f'request an increase in the Service Quotas console: "{quota}"'
    return _of_quota(Level.PROBLEM, usage, fix)
