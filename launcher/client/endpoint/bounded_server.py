"""A server whose connections end when they are silent, and whose number is bounded."""

from __future__ import annotations

import io
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from moto.server import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: For the whole head of a request, for the silence within its body or its response, and for all
#: that comes after the response.
PATIENCE_SECONDS = 15.0
#: Connections that are answered at once; others wait until one of them ends.
MOST_CONNECTIONS = 512
#: Seconds in which a full server notices that it is to stop.
_STOP_SECONDS = 0.5
#: Bytes of a response that a client must take within the patience.
_PIECE = 1 << 16


class BoundedServer(ThreadedWSGIServer):  # type: ignore[misc]  # werkzeug's types are not read
    """Answers each connection in a thread; at most MOST_CONNECTIONS have one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._is_stopping = False

    def stop(self) -> None:
        """Let `serve_forever` return soon; a signal handler may call this."""
        self._is_stopping = True

    def service_actions(self) -> None:
        """End `serve_forever`, which calls this after each connection and twice a second."""
        if self._is_stopping:
            raise KeyboardInterrupt  # by which werkzeug's ends, without a word

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, once there may be one more."""
        while not self._slots.acquire(timeout=_STOP_SECONDS):
            self.service_actions()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()


class BoundedHandler(MotoRequestHandler):  # type: ignore[misc]  # moto's types are not read
    """Reads a request within the patience; the application logs what matters, not this."""

    def setup(self) -> None:
        """Replace the files of a connection by those that do not wait for ever."""
        super().setup()
        for file in (self.rfile, self.wfile):
            file.close()
        self._stream = _PatientStream(self.connection)
        self.rfile: io.BufferedIOBase = io.BufferedReader(self._stream)
        self.wfile: io.RawIOBase = self._stream

    def parse_request(self) -> bool:
        """Read the headers; what follows may take long, but not stay silent."""
        if not super().parse_request():
            return False
        self._stream.end_head()
        try:
            urlsplit(self.path)  # as werkzeug does, without a word to the client
        except ValueError:
            self.send_error(400, "Bad request target")
            return False
        return True

    def make_environ(self) -> dict[str, object]:
        """Return the environment; its body is read as it comes, chunks and all."""
        return {**super().make_environ(), "wsgi.input": self.rfile}

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begin the response; what the client sends beyond it is read, but not for long."""
        self._stream.begin_response()
        super().send_response(code, message)

    def log_request(self, *_: object) -> None:
        """Log nothing."""

    def log_error(self, *_: object) -> None:
        """Log nothing: what is no request may be of a program that knows no key."""


class _PatientStream(io.RawIOBase):
    """The bytes of a connection; reads and writes raise TimeoutError at the end of the patience."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until: float | None = time.monotonic() + PATIENCE_SECONDS
        self._is_answering = False

    def end_head(self) -> None:
        """From now on, limit each silence, and not the whole."""
        self._until = None

    def begin_response(self) -> None:
        """From now on, limit all reads after the last write: no answer depends on them."""
        self._is_answering = True

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what has come, or wait for it."""
        self._connection.settimeout(self._patience())
        return self._connection.recv_into(buffer)

    def write(self, data: ReadableBuffer) -> int:
        """Write all, as long as the client takes it."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            self._connection.settimeout(PATIENCE_SECONDS)
            self._connection.sendall(view[start : start + _PIECE])
        if self._is_answering:
            self._until = time.monotonic() + PATIENCE_SECONDS
        return len(view)

    def _patience(self) -> float:
        if self._until is None:
            return PATIENCE_SECONDS
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the head of the request, or the end of its body, did not come")
        return left
