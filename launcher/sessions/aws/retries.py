"""Trying again: only what may be better the next time, with growing pauses, and not for ever."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from launcher.errors import CloudError, Refused, Unreachable
from launcher.sessions.aws.readings import THROTTLED

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
#: The HTTP status stands in place of a code where the answer has no body, or a proxy's.
_FAULT_STATUS = re.compile(r"5\d\d|408")
#: What CreateTrainingJob says while a role or a policy that was just made is not yet known
#: everywhere. Source: the list that Terraform's AWS provider retries.
_PROPAGATION = (
    "Could not assume role",
    "Unauthorized to List objects under S3 URL",
    "Access denied to OutputDataConfig S3 bucket",
    "no identity-based policy allows the s3:ListBucket action",
    "Access denied for repository",
)


def is_throttled(error: CloudError) -> bool:
    return isinstance(error, Refused) and error.code in THROTTLED


def is_server_fault(error: CloudError) -> bool:
    """AWS broke while it answered: whether it did what it was asked is not known."""
    code = error.code or ""
    is_fault = code in _SERVER_FAULTS or _FAULT_STATUS.fullmatch(code) is not None
    return isinstance(error, Refused) and is_fault


def is_propagating(error: CloudError) -> bool:
    """A role or policy is missing, which may have been made a minute ago."""
    return error.code == "ValidationException" and any(each in str(error) for each in _PROPAGATION)


def is_passing(error: CloudError) -> bool:
    """A question that changes nothing may be asked again."""
    return is_throttled(error) or is_server_fault(error) or isinstance(error, Unreachable)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to go on trying (seconds in all), and the first and the longest pause."""

    seconds: float
    first: float = 0.5
    longest: float = 10.0


def retry(
    call: Callable[[], Answer],
    patience: Patience,
    is_worth: Callable[[CloudError], bool],
    tell: Callable[[str], None] | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """The answer of `call`; its last error when the patience is at an end, or at once if not worth.

    tell: hears, before a pause, what is waited for.
    """
    deadline, pause = now() + patience.seconds, patience.first
    while True:
        try:
            return call()
        except CloudError as error:
            # Half of a pause is random: many clients that failed together do not return together.
            wait = pause * random.uniform(0.5, 1.0)
            if not is_worth(error) or now() + wait > deadline:
                raise
            if tell:
                tell(f"{error.headline}; trying again in {wait:.1f} s")
        sleep(wait)
        pause = min(pause * 2, patience.longest)
