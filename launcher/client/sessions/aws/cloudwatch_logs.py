"""A job's logs in CloudWatch: one stream for each start of each host."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.transient_errors import is_throttled, retry
from launcher.client.sessions.base import LogEvent, LogStream
from launcher.client.sessions.retry import RetryPolicy
from launcher.errors import Refused

GROUP = "/aws/sagemaker/TrainingJobs"
#: AWS documents no limit for how late a line may appear. SDK v2 checks once more after 10 s; this
#: is twice as long.
DELAY_SECONDS = 20.0
#: All readers of an account share 25 GetLogEvents per second (10 in some regions), and as many
#: DescribeLogStreams. While other jobs are followed, throttling may last.
_RETRY_POLICY = RetryPolicy(seconds=300, first=0.2, longest=5.0)
#: The API's maximum.
_LARGEST_PAGE = 10_000
_STREAM = re.compile(r".+/(?P<host>algo-(?P<number>\d+))-(?P<start>\d+)")


def streams(clients: Clients, job_name: str) -> list[LogStream]:
    """Return the existing streams, hosts in numeric order; none before the first line."""
    found = []
    token: str | None = None
    while True:
        try:
            page = retry(
                partial(_page_of_streams, clients, job_name, token), _RETRY_POLICY, is_throttled
            )
        except Refused as error:
            if error.code == "ResourceNotFoundException":  # first job of the account, no line yet
                return []
            raise
        found += [match for entry in page["logStreams"] if (match := _match(entry))]
        token = page.get("nextToken")
        if not token:
            break
    found.sort(key=lambda match: (int(match["number"]), int(match["start"])))
    return [LogStream(name=match[0], host=match["host"]) for match in found]


def read(
    clients: Clients, stream: str, position: str | None, limit: int
) -> tuple[list[LogEvent], str] | None:
    """Return events after a position, and where they end; None while the stream does not exist.

    A page can be empty although more follow; an unchanged token marks the end.
    """
    token = position or None
    while True:
        try:
            page = retry(partial(_page, clients, stream, token, limit), _RETRY_POLICY, is_throttled)
        except Refused as error:
            if error.code == "ResourceNotFoundException":
                return None
            raise
        after = str(page["nextForwardToken"])
        if page["events"] or after == token:
            return [_event(event) for event in page["events"]], after
        token = after


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


def _event(event: dict[str, Any]) -> LogEvent:
    return LogEvent(time=event["timestamp"] / 1000, text=event["message"].rstrip("\n"))
