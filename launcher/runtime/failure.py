"""Why a host failed, and the file that tells the platform."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.contract import FAILURE_REASON_LIMIT, MlPaths
from launcher.runtime.events import emit

#: Enough for a reason of 1,024 characters of 4 bytes, in the blocks that a file system gives out.
_ROOM_BYTES = 8192
#: What ranks say when another rank went away: the consequence of a failure, never its cause.
_PEER_LOST = re.compile(
    r"connection (closed|reset|refused|lost)|closed by peer|broken pipe|gloo|nccl|"
    r"DistBackendError|DistNetworkError|DistStoreError|recvValue|heartbeat|socket timeout|"
    r"RPC that terminated|"  # gRPC's words for every error of a server, in the first line
    r"(mpirun|\(orted\)) ended: exit code",  # they end so when a rank does, on whatever host
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One cause: where it happened, what happened, and the last lines that tell more.

    witness: the host that tells the platform, where the one that failed cannot.
    """

    host: str
    group: str
    cause: str
    rank: int | None = None
    detail: str = ""
    witness: str | None = None

    @property
    def is_echo(self) -> bool:
        """Whether this reads like the loss of another process rather than a cause of its own."""
        return bool(_PEER_LOST.search(self.cause))

    def __str__(self) -> str:
        """The reason as the platform will show it: the cause first, then the end of the detail."""
        where = f"host {self.host} ({self.group})"
        if self.rank is not None:
            where += f", rank {self.rank}"
        head = f"{where}: {self.cause}"
        room = FAILURE_REASON_LIMIT - len(head) - 1
        if not self.detail or room < 40:
            return head[:FAILURE_REASON_LIMIT]
        return f"{head}\n{_tail(self.detail, room)}"

    def to_message(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Failure:
        return cls(**message)

    def write(self, paths: MlPaths) -> None:
        """Write the failure file; one that the user's code has written stays.

        On a full disk it takes the room that was kept, and the log has the reason in any case.
        """
        write_reason(paths, str(self))


def _tail(text: str, room: int) -> str:
    """As many whole last lines as fit, or the end of the last one."""
    lines = text.rstrip().splitlines()
    kept: list[str] = []
    for line in reversed(lines):
        if sum(len(one) + 1 for one in kept) + len(line) > room:
            break
        kept.insert(0, line)
    return "\n".join(kept) if kept else text.rstrip()[-room:]


def keep_room(paths: MlPaths) -> None:
    """Keep room for the failure file, so that a disk that is full later can still take it."""
    with contextlib.suppress(OSError):  # full already: the log must do
        paths.output.mkdir(parents=True, exist_ok=True)
        _room(paths).write_bytes(b"\n" * _ROOM_BYTES)


def free_room(paths: MlPaths) -> None:
    """Give the room back."""
    with contextlib.suppress(OSError):
        _room(paths).unlink(missing_ok=True)


def _room(paths: MlPaths) -> Path:
    return paths.output / ".room-for-failure"


def write_reason(paths: MlPaths, text: str) -> None:
    """Write the failure file, unless there is one."""
    path = paths.failure
    if path.exists():
        return
    free_room(paths)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:  # a full disk; the host must end all the same
        emit("failure_not_written", why=str(error), reason=text)
