"""JSON messages over a blocking socket, one per line."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import handshake
from launcher.runtime.host.event_log import emit
from launcher.shared import backoff

#: A longer message is an attack or a bug.
MESSAGE_LIMIT = 64 * 1024 * 1024
#: Seconds without an answer from the other side's kernel after which a connection breaks. By
#: default Linux waits 2 hours or more (tcp(7): tcp_keepalive_time, tcp_retries2).
KEEPALIVE_TIMEOUT = 30
#: Handshakes without the other side's proof after which it is not one that was killed meanwhile.
_PROOFS_MISSING = 3
#: Seconds between two log lines of a host that waits for another.
LOG_INTERVAL = 30.0
#: json.dumps creates an encoder for each call, which doubles the cost.
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_DECODER = json.JSONDecoder()


class LineConnection:
    """Sends and receives JSON objects; sending is safe from several threads.

    Only one thread at a time may receive. polls: wait in poll(2), which keeps sleeping when the
    other side of a Unix connection reads. By measurement, recv wakes up each time.
    """

    def __init__(self, connection: socket.socket, *, polls: bool = False) -> None:
        self._socket = connection
        self._poll: select.poll | None = None
        if polls:
            self._poll = select.poll()
            self._poll.register(connection, select.POLLIN)
        self._buffer = bytearray()
        self._sending = threading.Lock()

    def send(self, message: Mapping[str, object]) -> None:
        """Send one message; raise OSError if the other side is gone."""
        line = encode(message)
        with self._sending:
            self._socket.sendall(line)

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end.

        Raises OSError if the connection breaks without an end, and WireError if the data is not a
        message.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > MESSAGE_LIMIT:
                raise WireError(f"a message of more than {MESSAGE_LIMIT} bytes")
            if self._poll is not None:
                self._poll.poll()
            chunk = self._socket.recv(65536)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return decode(line)

    def close(self) -> None:
        """Shut down the connection, which also wakes a receiver."""
        with contextlib.suppress(OSError):  # the other side may have closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def encode(message: Mapping[str, object] | Sequence[object]) -> bytes:
    """Encode a message as a line."""
    return _ENCODER.encode(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Decode a message from a line; raise WireError if it is not a JSON object."""
    try:
        message = from_json(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a message: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise WireError(f"not a message: {line[:80]!r}")
    return message


def from_json(data: bytes | bytearray) -> Any:
    """Parse like json.loads, but without detecting encodings or spaces; raise ValueError."""
    text = data.decode()
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError(f"{len(text) - end} characters after its end")
    return value


def connect(
    address: tuple[str, int],
    token: str,
    *,
    timeout: float,
    peer: str,
    logs_waiting: bool = False,
) -> socket.socket:
    """Connect and shake hands, retrying for `timeout` seconds.

    Hosts of a job start minutes apart and their names resolve late, so refused connections and
    unknown names are retried. Raises DataServiceUnavailable after `timeout` seconds, and
    AuthenticationError at once when the other side does not know the token.

    peer: the name of the other side in errors and in the log. logs_waiting: log from time to time
        that this host still waits for it.
    """
    start = last_logged = time.monotonic()
    last: AuthenticationError | OSError | None = None
    proofs_missing = 0
    for _ in backoff(first=0.05, longest=2.0, timeout=timeout):
        try:
            return _connect_once(address, token)
        except handshake.ProofMissing as error:  # noqa: PERF203 - each attempt may fail on its own
            last = error
            proofs_missing += 1
            if proofs_missing == _PROOFS_MISSING:
                break
        except AuthenticationError as error:
            last = error
            break
        except OSError as error:
            last = error
            if logs_waiting and (now := time.monotonic()) - last_logged >= LOG_INTERVAL:
                last_logged = now
                emit("waiting_for_peer", peer=peer, seconds=round(now - start), why=str(error))
    if isinstance(last, AuthenticationError):
        raise AuthenticationError(f"{peer} at {address[0]}:{address[1]}: {last}") from last
    raise DataServiceUnavailable(
        f"{peer} at {address[0]}:{address[1]} could not be reached for {timeout:.0f} s: {last}"
    ) from last


def accept_connections(listener: socket.socket, port: str) -> Iterator[tuple[socket.socket, Any]]:
    """Yield (connection, peer) until the listener is closed.

    When no descriptors are free, retry: unauthenticated connections that hold them time out.
    port: the name of the port in the log.
    """
    while True:
        try:
            connection, peer = listener.accept()
        except OSError as error:  # noqa: PERF203 - each attempt may fail on its own
            if listener.fileno() < 0:
                return
            emit("accept_failed", port=port, why=str(error))
            time.sleep(0.5)
        else:
            enable_keepalive(connection)
            yield connection, peer


def enable_keepalive(connection: socket.socket) -> None:
    """Let the kernel break a TCP connection to an unreachable peer after KEEPALIVE_TIMEOUT seconds.

    A cut network or a lost instance does not close connections. A stopped process stays reachable,
    since its kernel answers.
    """
    if connection.family is socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, KEEPALIVE_TIMEOUT // 3),
        (socket.TCP_KEEPINTVL, KEEPALIVE_TIMEOUT // 6),
        (socket.TCP_KEEPCNT, 4),
        (
            socket.TCP_USER_TIMEOUT,
            1000 * KEEPALIVE_TIMEOUT,
        ),  # also covers data sent but not acknowledged
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _connect_once(address: tuple[str, int], token: str) -> socket.socket:
    connection = socket.create_connection(address, timeout=handshake.TIMEOUT)
    try:
        handshake.initiate(connection, token)
    except BaseException:
        connection.close()
        raise
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    enable_keepalive(connection)
    return connection
