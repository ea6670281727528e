"""The limit of a dispatcher in asyncio: JSON lines are read and answered, and nothing is thought.

serve says its port; each line that arrives is parsed, made anew and sent back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json


async def _attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):  # a crowd leaves without a word
        while line := await reader.readline():
            message = json.loads(line)
            writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


async def _serve() -> None:
    server = await asyncio.start_server(_attend, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
