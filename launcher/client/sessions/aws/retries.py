"""Retries with growing pauses and a deadline, only for errors that may pass."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from launcher.client.sessions.aws.error_hints import THROTTLED
from launcher.errors import CloudError, Refused, Unreachable

Answer = TypeVar("Answer")

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
    """Return whether AWS refused because of too many requests."""
    return isinstance(error, Refused) and error.code in THROTTLED


def is_server_fault(error: CloudError) -> bool:
    """Return whether AWS failed while answering; whether it executed the request is unknown."""
    code = error.code or ""
    is_fault = code in _SERVER_FAULTS or _FAULT_STATUS.fullmatch(code) is not None
    return isinstance(error, Refused) and is_fault


def is_propagating(error: CloudError) -> bool:
    """Return whether a role or policy is missing, which may have been created a minute ago."""
    return error.code == "ValidationException" and any(each in str(error) for each in _PROPAGATION)


def is_passing(error: CloudError) -> bool:
    """Return whether a call that changes nothing may be repeated."""
    return is_throttled(error) or is_server_fault(error) or isinstance(error, Unreachable)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits of a retry: total seconds, first pause and longest pause."""

    seconds: float
    first: float = 0.5
    longest: float = 10.0


def retry(
    call: Callable[[], Answer],
    patience: RetryPolicy,
    is_worth: Callable[[CloudError], bool],
    tell: Callable[[str], None] | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Return the result of `call`, repeated while `is_worth` accepts its errors.

    Raises its last error when the time is up, and any other error at once.

    tell: called before a pause with the reason for waiting.
    """
    deadline, pause = now() + patience.seconds, patience.first
    while True:
        try:
            return call()
        except CloudError as error:
            # Half of a pause is random: clients that failed together do not retry together.
            wait = pause * random.uniform(0.5, 1.0)
            if not is_worth(error) or now() + wait > deadline:
                raise
            if tell:
                tell(f"{error.headline}; trying again in {wait:.1f} s")
        sleep(wait)
        pause = min(pause * 2, patience.longest)
