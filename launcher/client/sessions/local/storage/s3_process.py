"""The S3 process of a job: a separate process that makes every S3 call for it.

The watchdog forks it before the platform process, for three reasons: the platform process may leave
this machine's network (isolation `network`), it kills all its descendants when the hosts have
ended, and it must start processes from a single thread. The two processes communicate over a pipe,
and the S3 process exits when the other end is closed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.object_store import S3Failed
from launcher.errors import PlatformError

#: Seconds of retries without progress before a call fails.
RETRY_SECONDS = 300.0


class TransferStopped(Exception):
    """Raised when the job was asked to stop while its inputs were being downloaded."""


class S3Process:
    """The platform process's end of the pipe: sends a request and waits for its response.

    on_note: called with the notes that arrive while a request runs.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()  # the checkpoint thread sends requests too
        self.on_note: Callable[[str], None] = lambda _: None

    def list(self, uri: str, *, wait_for_s3: bool = True) -> list[tuple[str, int]]:
        """Return (URI, bytes) of every object whose URI starts with `uri`. Raises S3Failed."""
        found: list[tuple[str, int]] = self._call("list", uri, _retry_seconds(wait_for_s3))
        return found

    def read(self, uri: str) -> bytes:
        """Return the content of a small object. Raises S3Failed."""
        content: bytes = self._call("read", uri, RETRY_SECONDS)
        return content

    def fetch(
        self, files: Mapping[str, Path], progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Copy objects into files; progress: called with the bytes so far.

        Raises S3Failed, OSError, or TransferStopped.
        """
        self._call("fetch", dict(files), RETRY_SECONDS, progress=progress)

    def store(self, files: Mapping[str, Path], *, wait_for_s3: bool = True) -> None:
        """Copy files into objects; with `wait_for_s3`, wait for S3. Raises S3Failed or OSError."""
        self._call("store", dict(files), _retry_seconds(wait_for_s3))

    def delete(self, uris: Sequence[str], *, wait_for_s3: bool = True) -> None:
        """Remove objects; with `wait_for_s3`, wait for S3. Raises S3Failed."""
        self._call("delete", list(uris), _retry_seconds(wait_for_s3))

    def close(self) -> None:
        """Close this process's end; the S3 process exits once no process holds this end open."""
        self._connection.close()

    def _call(
        self, name: str, *arguments: object, progress: Callable[[int], None] = lambda _: None
    ) -> Any:
        with self._lock:
            try:
                self._connection.send((name, arguments))
                while True:
                    kind, value = self._connection.recv()
                    if kind == "note":
                        self.on_note(value)
                    elif kind == "progress":
                        progress(value)
                    elif kind == "failed":
                        raise value
                    else:
                        return value
            except (EOFError, ConnectionError) as error:
                raise S3Failed("the S3 process of the job exited unexpectedly") from error


def _retry_seconds(wait_for_s3: bool) -> float:
    return RETRY_SECONDS if wait_for_s3 else 0.0


def spawn(folder: JobFolder) -> S3Process:
    """Fork the S3 process of a job and return the connection to it."""
    parent_end, child_end = Pipe()
    if os.fork() == 0:
        try:
            _close_all_but(child_end.fileno())
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _serve(child_end, folder)
        finally:
            os._exit(0)
    child_end.close()
    return S3Process(parent_end)


def _close_all_but(kept: int) -> None:
    """Close all other descriptors: a copy of the lock would make a dead platform look alive."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _serve(connection: Connection, folder: JobFolder) -> None:
    """Answer requests until the other end of the pipe is closed."""
    listener = _TransferListener(connection, folder)
    s3 = None
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            # Imported here so that a job that ends before it needs S3 does not wait for boto3.
            from launcher.client.sessions.local.storage.s3_client import S3Client

            s3 = s3 or S3Client(listener)
            response = ("done", getattr(s3, name)(*arguments))
        except (PlatformError, OSError, TransferStopped) as error:
            response = ("failed", error)
        except Exception as error:  # noqa: BLE001 (the other process reports it)
            response = ("failed", S3Failed(f"{type(error).__name__}: {error}"))
        connection.send(response)


class _TransferListener:
    """Sends the progress and notes of a transfer over the pipe, and watches for a stop request."""

    def __init__(self, connection: Connection, folder: JobFolder) -> None:
        self._connection = connection
        self._folder = folder

    def progress(self, done: int) -> None:
        """Send the number of bytes transferred so far."""
        self._connection.send(("progress", done))

    def note(self, text: str) -> None:
        """Send a message for the job's owner."""
        self._connection.send(("note", text))

    def check(self) -> None:
        """Raise TransferStopped if the job was asked to stop."""
        if self._folder.stop.exists():
            raise TransferStopped

    def wait(self, seconds: float) -> None:
        """Wait for some seconds; raise EOFError when the platform process has exited."""
        if self._connection.poll(seconds):
            raise EOFError
