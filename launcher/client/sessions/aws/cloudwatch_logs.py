"""A job's logs in CloudWatch: one stream for each start of each host."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import retry_read
from launcher.client.sessions.base import LogEvent, LogStream
from launcher.client.sessions.retry_policy import RetryPolicy
from launcher.errors import Refused

GROUP = "/aws/sagemaker/TrainingJobs"
#: AWS documents no limit for how late a line may appear. SDK v2 checks once more after 10 s; this
#: is twice as long.
DELAY_SECONDS = 20.0
#: The code of a group or a stream that does not exist.
NOT_FOUND = "ResourceNotFoundException"
#: All readers of an account share 25 GetLogEvents per second (10 in some regions), and as many
#: DescribeLogStreams. While other jobs are followed, throttling may last.
_THROTTLED_POLICY = RetryPolicy(seconds=300, first=0.2, longest=5.0)
#: The API's maximum.
_LARGEST_PAGE = 10_000
#: Pages in a row that have nothing new; a sparse log has a few, tokens without an end any number.
_MOST_EMPTY_PAGES = 100
#: The end of the year 9999, in seconds since the epoch: later times cannot be shown.
_LAST_TIME = 253_402_300_799.0
_STREAM = re.compile(r".+/(?P<host>algo-(?P<number>\d{1,18}))-(?P<start>\d{1,18})")


def streams(clients: Clients, job_name: str) -> list[LogStream]:
    """Return the existing streams, hosts in numeric order; none before the first line.

    Raises Unreachable for pages that never end.
    """
    found: dict[str, re.Match[str]] = {}
    token: str | None = None
    empty = 0
    while True:
        try:
            page = retry_read(
                partial(_page_of_streams, clients, job_name, token), _THROTTLED_POLICY
            )
        except Refused as error:
            if error.code == NOT_FOUND:  # first job of the account, no line yet
                return []
            raise
        matches = {match[0]: match for entry in page["logStreams"] if (match := _match(entry))}
        empty = 0 if matches.keys() - found.keys() else empty + 1
        found.update(matches)
        token = page.get("nextToken")
        if not token:
            break
        if empty > _MOST_EMPTY_PAGES:
            raise foreign_response("DescribeLogStreams", f"has {empty} pages without a new stream")
    return [
        LogStream(name=match[0], host=match["host"]) for match in sorted(found.values(), key=_order)
    ]


def read(
    clients: Clients, stream: str, position: str | None, limit: int
) -> tuple[list[LogEvent], str] | None:
    """Return events after a position, and where they end; None while the stream does not exist.

    A page can be empty although more follow; an unchanged token marks the end. After many empty
    pages there is no event yet, so that the caller can look at the job meanwhile.
    """
    token = position or None
    for _ in range(_MOST_EMPTY_PAGES):
        try:
            page = retry_read(partial(_page, clients, stream, token, limit), _THROTTLED_POLICY)
        except Refused as error:
            if error.code == NOT_FOUND:
                return None
            raise
        after = str(page["nextForwardToken"])
        if page["events"] or after == token:
            return _events(page["events"]), after
        token = after
    return [], token or ""


def _page_of_streams(clients: Clients, job_name: str, token: str | None) -> dict[str, Any]:
    more = {"nextToken": token} if token else {}
    with clients.client("logs") as logs:
        return dict(
            logs.describe_log_streams(
                logGroupName=GROUP, logStreamNamePrefix=f"{job_name}/", limit=50, **more
            )
        )


def _page(clients: Clients, stream: str, token: str | None, limit: int) -> dict[str, Any]:
    more = {"nextToken": token} if token else {}
    with clients.client("logs") as logs:
        return dict(
            logs.get_log_events(
                logGroupName=GROUP,
                logStreamName=stream,
                startFromHead=True,
                limit=min(limit, _LARGEST_PAGE),
                **more,
            )
        )


def _match(entry: dict[str, Any]) -> re.Match[str] | None:
    return _STREAM.fullmatch(entry["logStreamName"])


def _order(match: re.Match[str]) -> tuple[int, int]:
    return int(match["number"]), int(match["start"])


def _events(entries: list[dict[str, Any]]) -> list[LogEvent]:
    """Return the events; one without a time has that of the event before it."""
    events, time = [], 0.0
    for entry in entries:
        milliseconds = entry.get("timestamp", entry.get("ingestionTime"))
        if milliseconds is not None:
            time = min(max(milliseconds / 1000, 0.0), _LAST_TIME)
        events.append(LogEvent(time=time, text=entry.get("message", "").rstrip("\n")))
    return events
