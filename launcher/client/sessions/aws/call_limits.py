"""Limits of every call of a boto client, in time, bytes and pages, whoever answers it.

botocore's read_timeout limits each silence: a byte a second holds a call for ever. So connections
count the time in which they wait for the server, and what it sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from launcher.client.sessions.aws.response_check import check_responses, foreign_response
from launcher.client.transfer_limit import SLOWEST, LimitedConnection, TransferLimit

#: Seconds of waiting for the server in one call, and bytes that buy one second more. Transfers of
#: objects may take longer, as long as they are not slower than SLOWEST.
CALL_SECONDS, _CALL_SPEED = 15.0, 32 << 10
#: Larger than any answer of AWS but an object: pages of logs have 1 MiB.
LARGEST_ANSWER = 32 << 20
#: The limit of the request that this thread sends next.
_NEXT: ContextVar[TransferLimit | None] = ContextVar("next_limit", default=None)


#: Pages of a list without a new object, of which S3 itself sends none.
_MOST_EMPTY_PAGES = 20


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


def listed_objects(s3: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the objects whose keys start with a prefix, each once, in S3's order.

    s3: a client of boto3. Raises Unreachable if page follows page without a new object: tokens
    that never end make empty pages, or the same ones again.
    """
    known: set[str] = set()
    empty = 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        fresh = [each for each in page.get("Contents", ()) if each["Key"] not in known]
        yield from fresh
        known.update(each["Key"] for each in fresh)
        empty = 0 if fresh else empty + 1
        if empty > _MOST_EMPTY_PAGES:
            raise foreign_response("ListObjectsV2", f"has {empty} pages without a new object")
