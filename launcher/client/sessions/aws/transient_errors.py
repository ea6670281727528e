"""Transient errors of AWS, and retries of the calls that raise them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from launcher.client.sessions.aws.error_translation import THROTTLED
from launcher.client.sessions.retry_policy import RetryPolicy, retry_call
from launcher.errors import CloudError, Refused, Unreachable

Result = TypeVar("Result")

#: For how long a read is repeated that was throttled, answered badly, or not answered.
READ_POLICY = RetryPolicy(seconds=30)
_SERVER_FAULTS = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalError",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
#: The code is the HTTP status if the answer has no body, or a proxy's.
_FAULT_STATUS = re.compile(r"5\d\d|408")
#: botocore's errors, by name, when nothing accepts connections at an address.
_NO_CONNECTION = frozenset(
    {"ConnectTimeoutError", "EndpointConnectionError", "ProxyConnectionError"}
)
#: Messages of CreateTrainingJob while a new role or policy has not propagated yet. Source: the
#: list that Terraform's AWS provider retries.
_PROPAGATION = (
    "Could not assume role",
    "Unauthorized to List objects under S3 URL",
    "Access denied to OutputDataConfig S3 bucket",
    "no identity-based policy allows the s3:ListBucket action",
    "Access denied for repository",
)


def is_throttled(error: CloudError) -> bool:
    """Return True if AWS refused because of too many requests."""
    return isinstance(error, Refused) and error.code in THROTTLED


def is_server_fault(error: CloudError) -> bool:
    """Return True if AWS failed on a request, which it may have executed or not."""
    code = error.code or ""
    is_fault = code in _SERVER_FAULTS or _FAULT_STATUS.fullmatch(code) is not None
    return isinstance(error, Refused) and is_fault


def is_propagating(error: CloudError) -> bool:
    """Return True if a role or policy was not found that may still be propagating."""
    return error.code == "ValidationException" and any(each in str(error) for each in _PROPAGATION)


def is_transient(error: CloudError) -> bool:
    """Return True if a call without side effects may be repeated."""
    return is_throttled(error) or is_server_fault(error) or isinstance(error, Unreachable)


def is_blip(error: CloudError) -> bool:
    """Return True if a read was answered badly or not at all, and may succeed at once.

    Without any connection it may succeed later, which those wait for who follow a job.
    """
    has_connection = type(error.__cause__).__name__ not in _NO_CONNECTION
    return is_server_fault(error) or (isinstance(error, Unreachable) and has_connection)


def retry(
    call: Callable[[], Result],
    policy: RetryPolicy,
    is_retryable: Callable[[CloudError], bool],
    notify: Callable[[str], None] | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Return the result of `call`, repeated while `is_retryable` accepts its errors.

    Raises its last error at the time limit, and any other error at once.
    notify: called before each pause with its reason.
    """

    def on_retry(error: CloudError, wait: float) -> None:
        if notify:
            notify(f"{error.headline}; retrying in {wait:.1f} s")

    return retry_call(call, policy, is_retryable, on_retry, errors=CloudError, now=now, sleep=sleep)


def retry_read(call: Callable[[], Result], throttled: RetryPolicy | None = None) -> Result:
    """Return the result of a call that may be repeated: it survives throttling and blips.

    throttled: for how long throttling is waited out; default as for blips.
    """

    def unthrottled() -> Result:
        return retry(call, throttled or READ_POLICY, is_throttled)

    return retry(unthrottled, READ_POLICY, is_blip)
