"""Frames as one connection brings them, each start read with the end of the frame before it."""

from __future__ import annotations

import socket
from typing import Any

import numpy.typing as npt

from launcher.data.batches import wire


class Incoming:
    """Turns of `start`, and `receive` or `skip`. For one thread. Raises OSError.

    Whenever the receiver sleeps or is busy with a large payload, what the next call needs leaves
    the caches: one call that brings the end of a frame and the start of the next saves one.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._start, self._next = bytearray(wire.START_BYTES), bytearray(wire.START_BYTES)
        self._here = 0  # bytes of the next start
        self._header: wire.Header | None = None

    @property
    def has_more(self) -> bool:
        """Whether something of the next frame is here."""
        return self._here > 0

    def start(self) -> wire.Header | None:
        """Whose batch comes next; None when the other side has ended. Raises WireError."""
        missing = memoryview(self._next)[self._here :]
        if missing and not wire.receive_exactly(self._connection, missing):
            return None
        self._start, self._next, self._here = self._next, self._start, 0
        if self._header is None:
            self._header = wire.read_start(self._start)
        else:
            self._header = wire.read_start_after(self._start, self._next, self._header)
        return self._header

    def receive(self, payload: memoryview) -> bool:
        """Fill a buffer of the payload's size; False when the other side ended before."""
        received = wire.receive(self._connection, payload, beyond=self._next)
        self._here = max(0, received - len(payload))
        return received >= len(payload)

    def skip(self, count: int) -> bool:
        """Receive so many bytes of the payload, all of them, and forget them."""
        return wire.skip(self._connection, count)

    def is_intact(self, payload: memoryview | npt.NDArray[Any]) -> bool:
        """Whether the frame that was received last is what was sent, by the checksum."""
        return wire.is_intact(self._start, payload)
