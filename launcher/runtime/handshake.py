"""Challenge and response with the job's token, the first exchange on every connection.

Both sides prove that they know the token, which never crosses the wire. The handshake keeps out
other programs in the subnet. It does not encrypt (see encrypt_inter_container_traffic for that).

    server -> client   launcher/1 <nonce>
    client -> server   <nonce> <HMAC-SHA256(token, "client" + both nonces)>
    server -> client   <HMAC-SHA256(token, "server" + both nonces)>
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import time
from typing import TYPE_CHECKING

from launcher.errors import AuthenticationError
from launcher.shared import token_hex

if TYPE_CHECKING:
    import asyncio

#: Seconds that the other side has for each line, no matter how many bytes it sends meanwhile.
TIMEOUT = 10.0
_GREETING = re.compile(rb"launcher/1 ([0-9a-f]{32})\n")
_ANSWER = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{64})\n")
_PROOF = re.compile(rb"([0-9a-f]{64})\n")
#: Lengths of these lines in bytes. No more is read: the next bytes belong to the next protocol.
_GREETING_BYTES, _ANSWER_BYTES, _PROOF_BYTES = 44, 98, 65


class ProofMissing(AuthenticationError):
    """The server closed the connection after the answer: it refused our token, or was killed."""


def _nonce() -> bytes:
    return token_hex(16).encode()


def _proof(token: str, side: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    message = b"|".join((side, server_nonce, client_nonce))
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest().encode()


def accept(connection: socket.socket, token: str) -> None:
    """Run the server's side on a blocking socket; raise AuthenticationError."""
    connection.settimeout(TIMEOUT)
    challenge = _nonce()
    connection.sendall(b"launcher/1 %s\n" % challenge)
    try:
        line = _read_line(connection, _ANSWER_BYTES)
    except (TimeoutError, ConnectionError) as error:
        raise AuthenticationError(f"no answer to the challenge: {error}") from error
    answer = _match(_ANSWER, line)
    _verify(answer[2], _proof(token, b"client", challenge, answer[1]))
    connection.sendall(_proof(token, b"server", challenge, answer[1]) + b"\n")
    connection.settimeout(None)


def initiate(connection: socket.socket, token: str) -> None:
    """Run the client's side on a blocking socket; raise AuthenticationError for a wrong answer.

    Raises OSError when no greeting arrives: the other side may be stopped or exiting, and may come
    back. Raises ProofMissing when the connection ends after it.
    """
    connection.settimeout(TIMEOUT)
    greeting = _read_line(connection, _GREETING_BYTES)
    if not greeting:
        raise ConnectionError("the other side closed the connection before its greeting")
    challenge = _match(_GREETING, greeting)[1]
    nonce = _nonce()
    connection.sendall(b"%s %s\n" % (nonce, _proof(token, b"client", challenge, nonce)))
    line = _read_line(connection, _PROOF_BYTES)
    if not line:
        raise ProofMissing("the other side refused this job's token, or was killed")
    _verify(_match(_PROOF, line)[1], _proof(token, b"server", challenge, nonce))
    connection.settimeout(None)


async def accept_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> None:
    """Run the server's side on asyncio streams; raise AuthenticationError."""
    import asyncio  # a third of a worker's import time, and workers do not need it

    challenge = _nonce()
    writer.write(b"launcher/1 %s\n" % challenge)
    try:
        line = await asyncio.wait_for(_read_stream_line(reader, _ANSWER_BYTES), TIMEOUT)
    except (asyncio.TimeoutError, ConnectionError) as error:
        raise AuthenticationError(f"no answer to the challenge: {error!r}") from error
    answer = _match(_ANSWER, line)
    _verify(answer[2], _proof(token, b"client", challenge, answer[1]))
    writer.write(_proof(token, b"server", challenge, answer[1]) + b"\n")


def _verify(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise AuthenticationError("the other side does not know this job's token")


def _match(pattern: re.Pattern[bytes], line: bytes) -> re.Match[bytes]:
    match = pattern.fullmatch(line)
    if match is None:
        raise AuthenticationError(f"not the greeting of a Launcher job: {line[:40]!r}")
    return match


def _read_line(connection: socket.socket, size: int) -> bytes:
    """Read a line of `size` bytes, or whatever arrives instead; raise TimeoutError."""
    deadline = time.monotonic() + TIMEOUT
    line = b""
    while len(line) < size and b"\n" not in line:
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        if not (piece := connection.recv(size - len(line))):
            break
        line += piece
    return line


async def _read_stream_line(reader: asyncio.StreamReader, size: int) -> bytes:
    line = b""
    while len(line) < size and b"\n" not in line:
        if not (piece := await reader.read(size - len(line))):
            break
        line += piece
    return line
