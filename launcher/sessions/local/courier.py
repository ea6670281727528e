"""The courier of a job: the process that talks to S3 for it.

The keeper forks it before the platform process, which may leave this machine's network (isolation
`network`), kills whatever is below it when hosts have ended, and starts processes from a single
thread. The two talk over a pipe, and the courier leaves when the other end is closed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from launcher.errors import PlatformError
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.objects import S3Failed

#: Seconds for which S3 may be away before the job goes on without it.
PATIENCE = 300.0


class TransferStopped(Exception):
    """Someone asked the job to stop while its inputs were on their way."""


class Courier:
    """The platform's end: asks for one thing at a time, and waits for it.

    on_note, on_progress: told what the courier says meanwhile; on_progress of bytes.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()  # checkpoints have a thread of their own
        self.on_note: Callable[[str], None] = lambda _: None
        self.on_progress: Callable[[int], None] = lambda _: None

    def list(self, uri: str) -> list[tuple[str, int]]:
        """(URI, bytes) of every object whose URI begins so. Raises S3Failed."""
        found: list[tuple[str, int]] = self._ask("list", uri, PATIENCE)
        return found

    def read(self, uri: str) -> bytes:
        """A small object. Raises S3Failed."""
        content: bytes = self._ask("read", uri, PATIENCE)
        return content

    def fetch(self, files: Mapping[str, Path]) -> None:
        """Copy objects into files. Raises S3Failed, OSError, or TransferStopped."""
        self._ask("fetch", dict(files), PATIENCE)

    def store(self, files: Mapping[str, Path], *, patient: bool = True) -> None:
        """Copy files into objects; patient: wait for S3. Raises S3Failed or OSError."""
        self._ask("store", dict(files), PATIENCE if patient else 0.0)

    def close(self) -> None:
        """This process has nothing to ask; where no other has this end, the courier leaves."""
        self._connection.close()

    def _ask(self, name: str, *arguments: object) -> Any:
        with self._lock:
            try:
                self._connection.send((name, arguments))
                while True:
                    kind, value = self._connection.recv()
                    if kind == "note":
                        self.on_note(value)
                    elif kind == "progress":
                        self.on_progress(value)
                    elif kind == "failed":
                        raise value
                    else:
                        return value
            except (EOFError, ConnectionError) as error:
                raise S3Failed("the process that talks to S3 was lost") from error


def hire(folder: JobFolder) -> Courier:
    """Fork the courier of a job."""
    ours, its = Pipe()
    if os.fork() == 0:
        try:
            _close_all_but(its.fileno())
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _serve(its, folder)
        finally:
            os._exit(0)
    its.close()
    return Courier(ours)


def _close_all_but(kept: int) -> None:
    """Among them the job's lock, which says that its platform lives."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _serve(connection: Connection, folder: JobFolder) -> None:
    """Do what is asked until nobody is there to ask."""
    listener = _Line(connection, folder)
    s3 = None
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            # Here, since a job that ends before it needs S3 shall not wait for boto3.
            from launcher.sessions.local.s3 import S3

            s3 = s3 or S3(listener)
            answer = ("done", getattr(s3, name)(*arguments))
        except (PlatformError, OSError, TransferStopped) as error:
            answer = ("failed", error)
        except Exception as error:  # noqa: BLE001 (the other process is to say it, not this one)
            answer = ("failed", S3Failed(f"{type(error).__name__}: {error}"))
        connection.send(answer)


class _Line:
    """The courier's way to say how it goes."""

    def __init__(self, connection: Connection, folder: JobFolder) -> None:
        self._connection = connection
        self._folder = folder

    def progress(self, done: int) -> None:
        self._connection.send(("progress", done))

    def note(self, text: str) -> None:
        self._connection.send(("note", text))

    def check(self) -> None:
        if self._folder.stop.exists():
            raise TransferStopped

    def wait(self, seconds: float) -> None:
        """Let time pass; EOFError when the platform has gone."""
        if self._connection.poll(seconds):
            raise EOFError
