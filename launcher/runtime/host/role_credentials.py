"""The AWS credentials of the container that a host runs in.

Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException

from launcher.errors import LauncherError
from launcher.shared import backoff

RELATIVE_URI = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_FULL_URI = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_TOKEN = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
#: The address that answers a relative URI, inside every container of AWS.
CONTAINER_ORIGIN = "http://169.254.170.2"
_REQUEST_SECONDS, _SECONDS = 5.0, 30.0
#: HTTPException: an answer that was cut.
_FAILURES = (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class AwsCredentials:
    """Keys that sign requests; `token` belongs to temporary ones."""

    key_id: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def container_credentials(
    environment: Mapping[str, str], origin: str = CONTAINER_ORIGIN
) -> AwsCredentials:
    """Return the credentials of the job's role, or those in AWS's own variables.

    Raises LauncherError when there are none, or when they cannot be read.
    """
    if "AWS_ACCESS_KEY_ID" in environment and "AWS_SECRET_ACCESS_KEY" in environment:
        return AwsCredentials(
            key_id=environment["AWS_ACCESS_KEY_ID"],
            secret_key=environment["AWS_SECRET_ACCESS_KEY"],
            token=environment.get("AWS_SESSION_TOKEN"),
        )
    if relative := environment.get(RELATIVE_URI):
        uri = origin + relative
    elif not (uri := environment.get(_FULL_URI, "")):
        raise LauncherError(
            f"the container has no AWS credentials: {RELATIVE_URI} is not set, as it is in every "
            "training job on SageMaker"
        )
    return _read(uri, environment.get(_TOKEN))


def _read(uri: str, token: str | None) -> AwsCredentials:
    request = urllib.request.Request(uri, headers={"Authorization": token} if token else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is link-local
    why = ""
    for _ in backoff(first=0.5, longest=5.0, timeout=_SECONDS):
        try:
            with opener.open(request, timeout=_REQUEST_SECONDS) as answer:
                found = json.load(answer)
            return AwsCredentials(
                key_id=found["AccessKeyId"],
                secret_key=found["SecretAccessKey"],
                token=found.get("Token"),
            )
        except _FAILURES as error:  # noqa: PERF203 - it is tried again
            why = f"{type(error).__name__}: {error}"
    raise LauncherError(f"the container's AWS credentials cannot be read from {uri}: {why}")
