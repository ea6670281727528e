"""Checks of a request's S3 locations before the job is created, as AWS does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.endpoint.api_error import invalid
from launcher.client.endpoint.s3_gateway import Objects
from launcher.client.sessions.s3_uris import bucket_and_key, is_s3


def check_places(request: Mapping[str, Any], region: str, objects: Objects) -> None:
    """Raise Refusal for inputs without objects, and for an output bucket that does not exist."""
    for uri in _inputs(request):
        bucket, prefix = bucket_and_key(uri)
        if not objects.has_objects(bucket, prefix, region):
            raise invalid(_no_objects(uri, bucket, region, request["RoleArn"]))
    output = request["OutputDataConfig"]["S3OutputPath"]
    bucket, _ = bucket_and_key(output)
    if is_s3(output) and not objects.has_bucket(bucket, region):
        raise invalid(
            f"The S3 bucket of OutputDataConfig, {bucket}, does not exist. Please "
            f"ensure that the bucket exists in the selected region ({region})."
        )


def _no_objects(uri: str, bucket: str, region: str, role: str) -> str:
    """Return AWS's message (as in aws/amazon-sagemaker-examples, issue 2267)."""
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that '
        f"the bucket exists in the selected region ({region}), that objects exist under that S3 "
        f'prefix, and that the role "{role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
    )


def _inputs(request: Mapping[str, Any]) -> Iterator[str]:
    for channel in request.get("InputDataConfig", ()):
        uri = channel["DataSource"].get("S3DataSource", {}).get("S3Uri", "")
        if is_s3(uri):
            yield uri
