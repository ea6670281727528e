"""Limits of every call of a boto client, in time and in bytes, whoever answers it.

botocore's read_timeout limits each silence: a byte a second holds a call for ever. So connections
count the time in which they wait for the server, and what it sends.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

from launcher.client.sessions.aws.response_check import check_responses
from launcher.client.transfer_limit import SLOWEST, LimitedConnection, TransferLimit

#: Seconds of waiting for the server in one call, and bytes that buy one second more. Transfers of
#: objects may take longer, as long as they are not slower than SLOWEST.
CALL_SECONDS, _CALL_SPEED = 15.0, 32 << 10
#: Larger than any answer of AWS but an object: pages of logs have 1 MiB.
LARGEST_ANSWER = 32 << 20
#: The limit of the request that this thread sends next.
_NEXT: ContextVar[TransferLimit | None] = ContextVar("next_limit", default=None)


def guard_calls(client: Any) -> None:
    """Let a client of boto raise Unreachable for calls without an end and for foreign responses."""
    check_responses(client)
    client.meta.events.register("before-send.*.*", _set_limit)
    # The one place where botocore lets connections be chosen; its proxies share this dictionary.
    client._endpoint.http_session._pool_classes_by_scheme.update(_pools())


def _set_limit(request: Any, **_more: Any) -> None:
    """Handle botocore's before-send event, which comes in the thread that sends."""
    is_object = bool(request.stream_output)
    _NEXT.set(TransferLimit(CALL_SECONDS, slowest=SLOWEST) if is_object else _call_limit())


def _call_limit() -> TransferLimit:
    return TransferLimit(CALL_SECONDS, largest=LARGEST_ANSWER, slowest=_CALL_SPEED)


class _LimitedBoto(LimitedConnection):
    """A connection of botocore, which is kept for several requests."""

    def next_limit(self) -> TransferLimit:
        """Return the limit of the request that this thread sends."""
        return _NEXT.get() or _call_limit()

    def request(self, *arguments: Any, **options: Any) -> Any:
        """Send a request, with a limit of its own."""
        if self.sock is not None:
            self.sock.limit = self.next_limit()
        return super().request(*arguments, **options)  # type: ignore[misc]  # of botocore's class


@cache
def _pools() -> dict[str, type]:
    """Return botocore's pools of connections, by scheme, with limited connections."""
    from botocore import awsrequest  # slow to import

    http = type("LimitedHTTP", (_LimitedBoto, awsrequest.AWSHTTPConnection), {})
    https = type("LimitedHTTPS", (_LimitedBoto, awsrequest.AWSHTTPSConnection), {})
    return {
        "http": type("HTTP", (awsrequest.AWSHTTPConnectionPool,), {"ConnectionCls": http}),
        "https": type("HTTPS", (awsrequest.AWSHTTPSConnectionPool,), {"ConnectionCls": https}),
    }
