"""The dispatcher's side of its connections to workers and receivers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from launcher.data.control import messages as m
from launcher.errors import WireError
from launcher.runtime import jsonl_socket

_CHUNK = 1 << 18


class Peer:
    """One connection; reads all received messages at once and writes messages in one batch."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.name = "?"
        self.pid = 0
        self.known_runs: set[str] = set()
        self.leaving = False

    async def messages(self) -> AsyncIterator[list[m.Message]]:
        """Yield the messages received so far, again and again, until the connection ends.

        Raises WireError for data that is not a message.
        """
        rest = b""
        while data := await self._read():
            *whole, rest = (rest + data).split(b"\n")
            if len(rest) > jsonl_socket.MESSAGE_LIMIT:
                raise WireError("a message beyond the limit")
            if whole:
                yield [m.from_line(line) for line in whole]

    async def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return await self._reader.read(_CHUNK)
        return b""

    def send(self, *messages: m.Message) -> None:
        """Send messages, unless the connection is closing."""
        if messages and not self._writer.is_closing():
            self._writer.write(m.to_lines(*messages))

    def drop(self) -> None:
        """Abort the connection, because the other side has a newer one or is gone."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Flush what is still to be sent, and close the connection."""
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.drain(), 1.0)
            self._writer.close()


class Peers(dict[str, Peer]):
    """The connected peers by name."""

    def send(self, name: str, *messages: m.Message) -> None:
        """Send messages to the peer of this name, if it is connected."""
        if peer := self.get(name):
            peer.send(*messages)
