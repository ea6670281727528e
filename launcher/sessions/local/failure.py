"""Why a job failed: FailureReason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launcher.contract import FAILURE_REASON_LIMIT
from launcher.sessions.local.running import RunningHost

#: UTF-8 has at most 4 bytes per character.
_BYTES = 4 * FAILURE_REASON_LIMIT


def failure_reason(ended: Sequence[RunningHost]) -> str:
    """The failure file of the host that failed first and has one, else how the first one ended.

    ended: the hosts in the order of their ends, at least one of which failed.
    """
    failed = [host for host in ended if host.exit_code]
    for host in failed:
        if text := _failure_file(host.tree.ml.failure):
            return text
    return f"host {failed[0].host}: {failed[0].how_it_ended()}"


def _failure_file(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        text = stream.read(_BYTES).decode(errors="replace")
    return text.strip()[:FAILURE_REASON_LIMIT]
