"""A limit of one exchange with a server: by time, by bytes, and by its least speed."""

from __future__ import annotations

import io
import math
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: Bytes of each second in which a long transfer may go on.
SLOWEST = 1024
#: Bytes that are sent at once, so that a slow line is no silent one.
_PIECE = 1 << 16
#: Reads after the end of a connection, which botocore repeats for ever after "100 Continue".
_MOST_EMPTY_READS = 100


class TransferTooLarge(Exception):
    """A server sends more than any answer has. No OSError, which HTTP clients take for a loss."""


@dataclass
class TransferLimit:
    """A limit of one exchange.

    seconds: that may be spent waiting for the other side; largest: bytes that may be received;
    slowest: bytes that buy one second more, None if none do.
    """

    seconds: float
    largest: float = math.inf
    slowest: float | None = None
    _waited: float = field(default=0.0, init=False)
    _received: int = field(default=0, init=False)
    _moved: int = field(default=0, init=False)

    @contextmanager
    def waiting(self) -> Iterator[float]:
        """Yield the seconds that are left, and count those of the block; raise TimeoutError."""
        bought = self._moved / self.slowest if self.slowest else 0.0
        left = self.seconds + bought - self._waited
        if left <= 0:
            raise TimeoutError(f"no end after {self._waited:.0f} s and {self._moved:,} bytes")
        began = time.monotonic()
        try:
            yield left
        finally:
            self._waited += time.monotonic() - began

    def received(self, count: int) -> None:
        """Count bytes that have come; raise TransferTooLarge."""
        self._received += count
        self._moved += count
        if self._received > self.largest:
            raise TransferTooLarge(f"an answer of more than {self.largest / (1 << 20):.0f} MiB")

    def sent(self, count: int) -> None:
        """Count bytes that the other side has taken."""
        self._moved += count


class LimitedSocket:
    """A connected socket whose reads and writes count.

    limit: of the request that is sent, and of its response.
    """

    def __init__(self, plain: socket.socket, limit: TransferLimit) -> None:
        self._plain = plain
        self._silence = plain.gettimeout()
        self.limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def settimeout(self, seconds: float | None) -> None:
        """Set the limit of each silence."""
        self._silence = seconds
        self._plain.settimeout(seconds)

    def sendall(self, data: ReadableBuffer, *_flags: int) -> None:
        """Send all, piece by piece."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            with self.limit.waiting() as left:
                self._plain.settimeout(self._patience(left))
                self._plain.sendall(piece)
            self.limit.sent(len(piece))

    def makefile(self, _mode: str = "rb", buffering: int | None = None) -> io.IOBase:
        """Return what reads from the socket, as http.client and botocore ask for it."""
        raw = _LimitedReader(self, self._plain.makefile("rb", buffering=0))
        return raw if buffering == 0 else io.BufferedReader(raw)

    def read_into(self, raw: io.RawIOBase, buffer: WriteableBuffer, limit: TransferLimit) -> int:
        """Read what has come, or wait for it."""
        with limit.waiting() as left:
            self._plain.settimeout(self._patience(left))
            count = raw.readinto(buffer) or 0
        limit.received(count)
        return count

    def _patience(self, left: float) -> float:
        return left if self._silence is None else min(left, self._silence)


class _LimitedReader(io.RawIOBase):
    """The bytes of one response."""

    def __init__(self, limited: LimitedSocket, raw: io.RawIOBase) -> None:
        self._socket = limited
        self._raw = raw
        self._limit = limited.limit
        self._empty = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what has come, or wait for it."""
        count = self._socket.read_into(self._raw, buffer, self._limit)
        self._empty += not count
        if self._empty > _MOST_EMPTY_READS:
            raise ConnectionError("the connection has ended")
        return count

    def close(self) -> None:
        """Close the file; the socket is closed with its last one."""
        super().close()
        self._raw.close()


class LimitedConnection:
    """An HTTP connection, by the class beside this one, whose socket is limited."""

    sock: Any

    def next_limit(self) -> TransferLimit:
        """Return the limit of the next request and its response."""
        raise NotImplementedError

    def connect(self) -> None:
        """Connect, and limit what follows."""
        super().connect()  # type: ignore[misc]  # of the class beside this one
        self.sock = LimitedSocket(self.sock, self.next_limit())
