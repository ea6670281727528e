"""The FailureReason of a failed job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.client.sessions.local.running_host import RunningHost
from launcher.shared import FAILURE_REASON_LIMIT, parse_event

#: UTF-8 has at most 4 bytes per character.
_BYTES = 4 * FAILURE_REASON_LIMIT
#: Log events that carry the reason when no failure file could be written (a full disk), or when
#: the host that should have written one was frozen; by event, the field that holds the reason.
_REASON_FIELDS = {"failure_not_written": "reason", "host_ended": "origin"}


def failure_reason(failed: Sequence[RunningHost]) -> str:
    """Return the failure file of the host that failed first and has one, else the logged reason.

    failed: the failed hosts in the order in which they ended, at least one. Without a file or a
    logged reason, return how the first one ended.
    """
    for host in failed:
        if text := _failure_file(host.tree.ml.failure):
            return text
    for event, field in _REASON_FIELDS.items():
        for host in failed if event == "failure_not_written" else failed[:1]:
            reasons = [fields.get(field) for name, fields in _events(host) if name == event]
            if found := list(filter(None, reasons)):
                return str(found[-1])[:FAILURE_REASON_LIMIT]
    return f"host {failed[0].host}: {failed[0].describe_exit()}"


def _failure_file(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        text = stream.read(_BYTES).decode(errors="replace")
    return text.strip()[:FAILURE_REASON_LIMIT]


def _events(host: RunningHost) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the host's events, then those in its log: where the disk was full, or of another."""
    for path in (host.events, host.log):
        with path.open(errors="replace") as lines:
            yield from filter(None, map(parse_event, lines))
