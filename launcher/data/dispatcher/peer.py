"""One connection of a worker or a receiver, as the dispatcher sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from launcher.data.control import messages as m
from launcher.errors import WireError
from launcher.runtime import lines

_CHUNK = 1 << 18


class Peer:
    """Reads what has come in one go, and writes what is to be said in one go."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.name = "?"
        self.pid = 0
        self.known_runs: set[str] = set()
        self.leaving = False

    async def heard(self) -> AsyncIterator[list[m.Message]]:
        """All messages that are there, again and again, until the end of the connection.

        Raises WireError for what is no message.
        """
        rest = b""
        while data := await self._read():
            *whole, rest = (rest + data).split(b"\n")
            if len(rest) > lines.MESSAGE_LIMIT:
                raise WireError("a message beyond the limit")
            if whole:
                yield [m.from_line(line) for line in whole]

    async def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return await self._reader.read(_CHUNK)
        return b""

    def send(self, *messages: m.Message) -> None:
        if messages and not self._writer.is_closing():
            self._writer.write(m.to_lines(*messages))

    def drop(self) -> None:
        """End the connection at once: its other side has a newer one, or is gone."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Say what is still to be said, and end the connection."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.drain(), 1.0)
            self._writer.close()
