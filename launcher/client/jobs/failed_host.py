"""The host where a job failed first, and the last lines it printed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from launcher.client.jobs.log_line import LogLine

#: Number of last lines of a host to show.
_LINES = 20
_HOST = re.compile(r"\b(algo-[1-9]\d*)\b")


@dataclass(frozen=True, kw_only=True)
class FailedHost:
    """The host where a job's failure began, and the last lines it printed."""

    group: str
    host: str
    lines: tuple[str, ...]


def host_of_reason(reason: str, hosts: Iterable[str]) -> str | None:
    """Return the host that a FailureReason names first, or the only host there is, else None."""
    known = list(hosts)
    named = [host for host in _HOST.findall(reason) if host in known]
    return named[0] if named else known[0] if len(known) == 1 else None


def find_failed_host(lines: Iterable[LogLine]) -> FailedHost | None:
    """Return the host that reported a failure first, from the lines of one host or of all."""
    last: dict[str, deque[LogLine]] = {}
    failed: str | None = None
    for line in lines:
        last.setdefault(line.host, deque(maxlen=_LINES)).append(line)
        if failed is None and _is_failure(line):
            failed = line.host
    if failed is None and len(last) == 1:
        failed = next(iter(last))
    return None if failed is None else _with_last_lines(last[failed])


def to_plain(failed: FailedHost | None) -> dict[str, object] | None:
    """Convert to plain values, as `-o json` prints them."""
    if failed is None:
        return None
    return {"group": failed.group, "host": failed.host, "last_lines": list(failed.lines)}


def _is_failure(line: LogLine) -> bool:
    event = line.event
    return event is not None and event[0] == "host_failed"


def _with_last_lines(lines: Iterable[LogLine]) -> FailedHost:
    tail = list(lines)
    return FailedHost(
        group=tail[0].group, host=tail[0].host, lines=tuple(line.readable for line in tail)
    )
