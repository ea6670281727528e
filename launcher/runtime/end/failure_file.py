"""The cause of a host's failure, and the failure file that the platform reads."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.runtime.end.peer_loss import reads_like_peer_loss
from launcher.runtime.host.event_log import emit
from launcher.shared import (
    FAILURE_REASON_LIMIT,
    FRAME,
    MlPaths,
    is_marks,
    is_users,
    own_mask,
    replacing,
)

#: Enough for a reason of 1,024 characters of 4 bytes, rounded up to file system blocks.
_RESERVED_BYTES = 8192


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One cause: where it happened, what happened, and the last lines of output as detail.

    witness: the host that writes the failure file if the failed host cannot.
    is_peer_loss: the classification of the exception's type by its rank; None if there was no
        exception, so that the text of the cause decides.
    """

    host: str
    group: str
    cause: str
    rank: int | None = None
    detail: str = ""
    witness: str | None = None
    is_peer_loss: bool | None = None

    @property
    def is_secondary(self) -> bool:
        """True if the failure is a consequence of the loss of another process."""
        if self.is_peer_loss is not None:
            return self.is_peer_loss
        return reads_like_peer_loss(self.cause)

    def __str__(self) -> str:
        """Format the reason as the platform will show it: the cause, then the end of the detail."""
        where = f"host {self.host} ({self.group})"
        if self.rank is not None:
            where += f", rank {self.rank}"
        head = f"{where}: {self.cause}"
        remaining = FAILURE_REASON_LIMIT - len(head) - 1
        if not self.detail or remaining < 40:
            return head[:FAILURE_REASON_LIMIT]
        return f"{head}\n{_tail(_without_libraries(self.detail), remaining)}"

    def to_message(self) -> dict[str, Any]:
        """Return the fields as a JSON message."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Failure:
        """Read the fields of a JSON message."""
        return cls(**message)

    def write(self, paths: MlPaths) -> None:
        """Write the failure file unless the user's code has written one.

        On a full disk it uses the reserved space. The log has the reason in any case.
        """
        write_reason(paths, str(self))


def _without_libraries(text: str) -> str:
    """Return a traceback without the frames of libraries, but for the one that raised the error.

    Text without a frame of the user's code is returned as it is.
    """
    if not any(is_users(found["file"]) for found in map(FRAME.match, text.splitlines()) if found):
        return text
    kept: list[str] = []
    library: list[str] = []  # the latest frame of a library
    in_library = False
    for line in text.splitlines():
        if frame := FRAME.match(line):
            library, in_library = [], not is_users(frame["file"])
        elif not line.startswith("    "):  # the error, or the next traceback
            kept += library
            library, in_library = [], False
        if not is_marks(line):
            (library if in_library else kept).append(line)
    return "\n".join([*kept, *library])


def _tail(text: str, limit: int) -> str:
    """Return as many whole last lines as fit, or the end of the last one."""
    lines = text.rstrip().splitlines()
    kept: list[str] = []
    for line in reversed(lines):
        if sum(len(each) + 1 for each in kept) + len(line) > limit:
            break
        kept.insert(0, line)
    return "\n".join(kept) if kept else text.rstrip()[-limit:]


def reserve_space(paths: MlPaths) -> None:
    """Reserve space for the failure file, so that it can be written when the disk is full."""
    with contextlib.suppress(OSError):  # already full; the log has the reason
        paths.output.mkdir(parents=True, exist_ok=True)
        _reserve(paths).write_bytes(b"\n" * _RESERVED_BYTES)


def release_space(paths: MlPaths) -> None:
    """Release the reserved space."""
    with contextlib.suppress(OSError):
        _reserve(paths).unlink(missing_ok=True)


def mask_users_reason(paths: MlPaths) -> None:
    """Replace the secrets in a failure file that the user's code has written."""
    path = paths.failure
    with contextlib.suppress(OSError):
        if not path.is_file():
            return
        with path.open("rb") as file:
            text = file.read(_RESERVED_BYTES)
        if (masked := own_mask().cut(text)) != text:
            if path.is_symlink():
                path.unlink()  # what it shows is the user's, and stays as it is
            path.write_bytes(masked)


def _reserve(paths: MlPaths) -> Path:
    return paths.output / ".reserved-for-failure"


def write_reason(paths: MlPaths, text: str) -> None:
    """Write the failure file unless it exists."""
    path, text = paths.failure, own_mask().text(text)
    if path.exists():
        return
    release_space(paths)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:  # a full disk; the host must exit anyway
        emit("failure_not_written", why=str(error), reason=text)
