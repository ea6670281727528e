"""The FailureReason of a failed job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.client.sessions.local.host.running_host import RunningHost
from launcher.shared import FAILURE_REASON_LIMIT, SecretMask, parse_event

#: UTF-8 has at most 4 bytes per character.
_BYTES = 4 * FAILURE_REASON_LIMIT
#: With less space left, hosts cannot write their files and logs.
_FULL = 256 * 1024
#: Log events that carry the reason when no failure file could be written (a full disk), or when
#: the host that should have written one was frozen; by event, the field that holds the reason.
_REASON_FIELDS = {"failure_not_written": "reason", "host_ended": "origin"}
#: The event of a host that has got SIGTERM and ends.
_STOPPING = "host_stopping"


def failure_reason(failed: Sequence[RunningHost], mask: SecretMask) -> str:
    """Return the failure file of the host that failed first and has one, else the logged reason.

    mask: replaces the job's secrets, which a host has no time to do if it is killed.
    failed: the failed hosts in the order in which they ended, at least one. If the first one had
    obeyed SIGTERM, that is the reason, unless it has a file. Without a file or a logged reason,
    return how the first one ended.
    """
    if not _failure_file(failed[0], mask) and _was_asked_to_stop(failed[0]):
        return f"host {failed[0].host}: it was asked to stop (SIGTERM), but the job was not"
    for host in failed:
        if text := _failure_file(host, mask):
            return text
    for event, field in _REASON_FIELDS.items():
        for host in failed if event == "failure_not_written" else failed[:1]:
            reasons = [fields.get(field) for name, fields in _events(host) if name == event]
            if found := list(filter(None, reasons)):
                return str(found[-1])[:FAILURE_REASON_LIMIT]
    return f"host {failed[0].host}: {failed[0].describe_exit()}{_full_disk(failed[0].tree.path)}"


def _full_disk(folder: Path) -> str:
    """Return the words for a disk without space, which keeps hosts from writing a reason."""
    free = shutil.disk_usage(folder).free if folder.exists() else _FULL
    if free >= _FULL:
        return ""
    return (
        f"; the disk with {folder} is full ({free // 1024} KiB left): free space there, or set "
        "LAUNCHER_HOME to a folder on another disk"
    )


def _failure_file(host: RunningHost, mask: SecretMask) -> str:
    path = host.tree.ml.failure
    if not host.tree.has(path) or not path.is_file():
        return ""
    with path.open("rb") as stream:
        text = mask.cut(stream.read(_BYTES)).decode(errors="replace")
    return text.strip()[:FAILURE_REASON_LIMIT]


def _was_asked_to_stop(host: RunningHost) -> bool:
    return any(name == _STOPPING for name, _ in _events(host))


def _events(host: RunningHost) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events in a host's own file, then those in its log, where a full disk put them."""
    for path in (host.events, host.log):
        with path.open(errors="replace") as lines:
            yield from filter(None, map(parse_event, lines))
