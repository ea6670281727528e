"""Rate limits of operations: one token bucket for each operation and region, as on AWS."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from launcher.client.endpoint.responses import ApiError
from launcher.errors import PlatformError
from launcher.shared import did_you_mean

#: Requests per second, account and region, by operation. Source: "CloudWatch Logs quotas" in the
#: CloudWatch Logs user guide; for FilterLogEvents also re:Post's "cloudwatch-logs-throttling".
#: A few regions allow more GetLogEvents; what works with 10 works everywhere.
AWS_RATES: Mapping[str, float] = MappingProxyType(
    {"DescribeLogStreams": 25.0, "GetLogEvents": 10.0, "FilterLogEvents": 5.0}
)

#: Services whose requests name their operation in a header, by which their rate is found.
_LIMITED = ("sagemaker", "logs", "ecr", "kms", "service-quotas", "pricing")


def parse_rates(texts: Iterable[str]) -> dict[str, float]:
    """Return AWS's rates, with the user's own, given as OPERATION=NUMBER, in their place.

    Raises PlatformError for another form, and for what is no rate of an operation.
    """
    try:
        own = {name: float(rate) for name, _, rate in (text.partition("=") for text in texts)}
    except ValueError as error:
        raise PlatformError(
            f"--rate takes OPERATION=NUMBER, such as GetLogEvents=10: {error}"
        ) from error
    for name, rate in own.items():
        if not rate > 0:
            raise PlatformError(f"--rate {name}={rate:g}: give more than 0 requests per second")
        if name not in AWS_RATES and not any(name in _operations(each) for each in _LIMITED):
            raise PlatformError(
                f"--rate {name}: none of {', '.join(_LIMITED)} has this operation"
                f"{_suggestion(name)}"
            )
    return {**AWS_RATES, **own}


def _suggestion(name: str) -> str:
    near = did_you_mean(name, itertools.chain.from_iterable(map(_operations, _LIMITED)))
    return f": did you mean {near}?" if near else ""


@functools.cache
def _operations(service: str) -> Collection[str]:
    """Return the names of a service's operations, as botocore models them."""
    from botocore.loaders import create_loader  # slow; few endpoints have rates of their own

    names: Collection[str] = create_loader().load_service_model(service, "service-2")["operations"]
    return names


class RateLimiter:
    """Refuses requests above their rate; a second's worth may arrive at once.

    rates: by operation; an operation without one is not limited.
    """

    def __init__(
        self, rates: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def acquire(self, operation: str, region: str) -> None:
        """Take a token; raise ApiError (ThrottlingException) when there is none."""
        rate = self._rates.get(operation)
        if rate is None:
            return
        size = max(1.0, rate)
        with self._lock:
            now = self._clock()
            tokens, before = self._buckets.get((operation, region), (size, now))
            tokens = min(size, tokens + (now - before) * rate)
            is_allowed = tokens >= 1
            self._buckets[operation, region] = (tokens - is_allowed, now)
        if not is_allowed:
            raise ApiError("ThrottlingException", "Rate exceeded")
