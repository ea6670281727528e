"""The buckets that a job reads and writes: they must exist and be in the job's region."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import (
    BUCKET_DENIED,
    NO_BUCKET,
    bucket_and_key,
    is_s3,
    translate_errors,
)
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Refused

_finding = partial(CheckSection.AWS.finding, "bucket")


def check(connection: Connection, spec: JobSpec) -> Iterator[CheckResult]:
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
        return _not_visible(bucket, field, error)
    except CloudError as error:
        return _finding(Level.WARNING, f"{bucket} cannot be checked from here: {error.headline}")
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    region = response.get("BucketRegion") or headers.get("x-amz-bucket-region")
    if region and connection.region not in (None, region):
        return _other_region(bucket, region, connection.region)
    return _finding(Level.OK, f"{bucket}{f', in {region}' if region else ''}")


def _other_region(bucket: str, region: str, own: str | None) -> CheckResult:
    return _finding(
        Level.PROBLEM,
        f"{bucket} is in {region}, but the job would run in {own}: both must be in one region",
        f"use a bucket in {own}, or export AWS_DEFAULT_REGION={region}",
    )


def _not_visible(bucket: str, field: str, error: Refused) -> CheckResult:
    if error.code in NO_BUCKET:
        return _finding(
            Level.PROBLEM,
            f"the bucket {bucket} ({field}) does not exist",
            f"create it (aws s3 mb s3://{bucket}), or correct {field}",
        )
    if error.code in BUCKET_DENIED:
        return _finding(
            Level.WARNING,
            f"{bucket} ({field}) cannot be checked from here: it is in another account, or you "
            "may not list it (the job's role may)",
        )
    return _finding(Level.WARNING, f"{bucket} cannot be checked from here ({error.headline})")
