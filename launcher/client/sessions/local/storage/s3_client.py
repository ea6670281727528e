"""S3 client of the local platform, through boto3: list, read, fetch and store objects.

The only file of the local platform that imports boto3; it runs in a job's S3 process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from s3transfer.exceptions import RetriesExceededError
from s3transfer.subscribers import BaseSubscriber

from launcher.client.sessions.aws.call_limits import guard_calls, listed_objects
from launcher.client.sessions.aws.error_translation import THROTTLED
from launcher.client.sessions.local.storage.object_store import S3Failed
from launcher.client.sessions.retry_policy import RetryPolicy, retry_call
from launcher.client.sessions.s3_uris import bucket_and_key
from launcher.errors import Unreachable

_T = TypeVar("_T")
#: Parts of objects transferred at once.
_PARALLEL = 16
_PAUSE_SECONDS = 1.0
_REPORT_SECONDS = 0.5
#: Codes after which the same request may succeed, beside any status of 500 and above.
_TRANSIENT = THROTTLED | {"OperationAborted", "RequestTimeout"}
_FAILURES: tuple[Any, ...] = (BotoCoreError, ClientError, RetriesExceededError, Unreachable)


class Listener(Protocol):
    """Receives progress and notes, and may end a transfer."""

    def progress(self, done: int) -> None:
        """Receive the number of bytes transferred so far."""

    def note(self, text: str) -> None:
        """Receive a message for the job's owner."""

    def check(self) -> None:
        """Raise an error to end the transfer early."""

    def wait(self, seconds: float) -> None:
        """Wait for some seconds."""


class S3Client:
    """An S3 client configured by the environment: its keys, region and AWS_ENDPOINT_URL_S3."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._client = boto3.client(
            "s3",
            config=Config(
                retries={"mode": "standard", "max_attempts": 3},
                max_pool_connections=_PARALLEL,
                connect_timeout=10,
            ),
        )
        guard_calls(self._client)

    def list(self, uri: str, retry_seconds: float) -> list[tuple[str, int]]:
        """Return (URI, bytes) of every object whose URI starts with `uri`, in S3's order."""
        bucket, prefix = bucket_and_key(uri)

        def call() -> list[tuple[str, int]]:
            found = listed_objects(self._client, bucket, prefix)
            return [(f"s3://{bucket}/{each['Key']}", each["Size"]) for each in found]

        return self._with_retries(call, retry_seconds, may_end=True)

    def read(self, uri: str, retry_seconds: float) -> bytes:
        """Return the content of a small object."""
        bucket, key = bucket_and_key(uri)

        def call() -> bytes:
            content: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
            return content

        return self._with_retries(call, retry_seconds, may_end=True)

    def fetch(self, files: Mapping[str, Path], retry_seconds: float) -> None:
        """Copy objects into files, many at once; the listener may end the transfer."""
        for path in files.values():
            path.parent.mkdir(parents=True, exist_ok=True)

        def start(manager: Any, uri: str, subscriber: BaseSubscriber) -> Any:
            bucket, key = bucket_and_key(uri)
            return manager.download(bucket, key, str(files[uri]), subscribers=[subscriber])

        self._transfer(dict(files), start, retry_seconds, may_end=True)

    def store(self, files: Mapping[str, Path], retry_seconds: float) -> None:
        """Copy files into objects, many at once."""

        def start(manager: Any, uri: str, subscriber: BaseSubscriber) -> Any:
            bucket, key = bucket_and_key(uri)
            return manager.upload(str(files[uri]), bucket, key, subscribers=[subscriber])

        self._transfer(dict(files), start, retry_seconds, may_end=False)

    def delete(self, uris: Sequence[str], retry_seconds: float) -> None:
        """Remove objects."""
        for uri in uris:
            self._with_retries(partial(self._delete_object, uri), retry_seconds, may_end=False)

    def _delete_object(self, uri: str) -> None:
        bucket, key = bucket_and_key(uri)
        with _with_uri(uri):
            self._client.delete_object(Bucket=bucket, Key=key)

    def _transfer(
        self,
        remaining: dict[str, Path],
        start: Callable[[Any, str, BaseSubscriber], Any],
        retry_seconds: float,
        *,
        may_end: bool,
    ) -> None:
        progress = _TransferProgress(self._listener, may_end=may_end)

        def call() -> None:
            config = TransferConfig(max_concurrency=_PARALLEL)
            with create_transfer_manager(self._client, config) as manager:
                futures = {uri: start(manager, uri, progress) for uri in remaining}
                for uri, future in futures.items():
                    with _with_uri(uri):
                        future.result()
                    del remaining[uri]

        self._with_retries(call, retry_seconds, lambda: progress.done, may_end=may_end)

    def _with_retries(
        self,
        call: Callable[[], _T],
        retry_seconds: float,
        progress: Callable[[], int] = lambda: 0,
        *,
        may_end: bool,
    ) -> _T:
        """Repeat a call until it succeeds; fail after `retry_seconds` without progress.

        may_end: the listener may end it between two attempts.
        """
        reported: int | None = None

        def on_retry(error: Exception, _wait: float) -> None:
            nonlocal reported
            if may_end:
                self._listener.check()
            if reported != progress():
                reported = progress()
                self._listener.note(
                    f"S3 does not respond ({_error_text(error)}): retrying for up to "
                    f"{retry_seconds:.0f} s"
                )

        policy = RetryPolicy(seconds=retry_seconds, first=_PAUSE_SECONDS, longest=_PAUSE_SECONDS)
        try:
            return retry_call(
                call,
                policy,
                _is_transient,
                on_retry,
                errors=_FAILURES,
                progress=progress,
                sleep=self._listener.wait,
            )
        except _FAILURES as error:
            raise _to_s3_failed(error) from error


class _TransferProgress(BaseSubscriber):  # type: ignore[misc]  # boto3 has no types
    """Counts the bytes of a transfer, and reports to the listener twice a second at most."""

    def __init__(self, listener: Listener, *, may_end: bool) -> None:
        self._listener = listener
        self._may_end = may_end
        self._lock = threading.Lock()
        self.done = 0
        self._next = 0.0

    def on_progress(self, bytes_transferred: int, **_: object) -> None:
        with self._lock:  # several threads transfer
            self.done += bytes_transferred
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + _REPORT_SECONDS
            self._listener.progress(self.done)
            if self._may_end:
                self._listener.check()


@contextmanager
def _with_uri(uri: str) -> Iterator[None]:
    """Attach to an error the URI of the object that it is about."""
    try:
        yield
    except _FAILURES as error:
        error.launcher_uri = uri
        raise


def _to_s3_failed(error: Exception) -> S3Failed:
    uri = getattr(error, "launcher_uri", None)
    where = f"{uri}: " if uri else ""
    return S3Failed(f"{where}{_error_text(error)}", _code(error))


def _error_text(error: Exception) -> str:
    if isinstance(error, RetriesExceededError):
        return f"{error}: {error.last_exception}"
    return str(error)


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""


def _is_transient(error: Exception) -> bool:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or _code(error) in _TRANSIENT
    damaged = FlexibleChecksumError | IncompleteReadError
    transient = ConnectionError | HTTPClientError | RetriesExceededError | Unreachable
    return isinstance(error, damaged | transient)
