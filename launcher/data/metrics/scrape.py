"""HTTP server of the metrics: GET /metrics and nothing else, for anyone who can reach the port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from launcher.data.metrics.prometheus import CONTENT_TYPE
from launcher.runtime.event_log import emit

#: Seconds for a request to arrive, and for its answer to leave.
_PATIENCE = 5.0
_REQUEST_LIMIT = 16 * 1024
_MOST_AT_ONCE = 16


class Scrape:
    """A small HTTP/1.1 server that sends one response per connection.

    text: called for each request; returns the metrics.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._busy = 0

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until cancelled; if the port is unavailable, log that and return."""
        try:
            server = await asyncio.start_server(self._attend, *address, limit=_REQUEST_LIMIT)
        except OSError as error:
            emit("metrics_not_served", port=address[1], why=error.strerror or str(error))
            return
        async with server:
            emit("metrics_served", port=address[1])
            await server.serve_forever()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(self._converse(reader, writer), _PATIENCE)
        except asyncio.CancelledError:
            return  # the server is stopping; asyncio before 3.12 would print this as an error
        finally:
            self._busy -= 1
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._busy > _MOST_AT_ONCE:
            status, body = "503 Service Unavailable", ""
        else:
            status, body = self._answer(await _request_line(reader))
        writer.write(_response(status, body))
        await writer.drain()

    def _answer(self, line: list[bytes]) -> tuple[str, str]:
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return "400 Bad Request", ""
        method, target, _ = line
        if target.partition(b"?")[0] != b"/metrics":
            return "404 Not Found", ""
        if method != b"GET":
            return "405 Method Not Allowed", ""
        return "200 OK", self._text()


async def _request_line(reader: asyncio.StreamReader) -> list[bytes]:
    """Read a request and return the words of its first line; none if no request arrived."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return []
    return head.partition(b"\r\n")[0].split(b" ")


def _response(status: str, body: str) -> bytes:
    content = (body or status + "\n").encode()
    allow = "Allow: GET\r\n" if status.startswith("405") else ""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n"
        f"{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + content
