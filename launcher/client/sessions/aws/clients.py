"""The boto clients of one session: with timeouts, thread-safe, and renewed with the credentials."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from launcher.client.sessions.aws.call_limits import guard_calls
from launcher.client.sessions.aws.error_translation import no_region, translate_errors
from launcher.errors import CredentialsExpired

if TYPE_CHECKING:
    import boto3

#: Of each silence; S3's, which copies objects meanwhile, may be longer.
_CONNECT_SECONDS, _READ_SECONDS, _S3_READ_SECONDS = 5, 10, 20
#: Connections that a client keeps open; additional threads open more.
_CONNECTIONS = 50
_THIS_MACHINE = ("127.0.0.1", "localhost")
#: boto itself retries S3 transfers, part by part. We retry all other calls, because only we know
#: which calls are safe to repeat.
_ATTEMPTS = {"s3": 5}


def configured_endpoint() -> str | None:
    """Return the URL that replaces SageMaker's, as boto3 reads it; None for AWS itself."""
    return os.environ.get("AWS_ENDPOINT_URL_SAGEMAKER") or os.environ.get("AWS_ENDPOINT_URL")


class Clients:
    """One client per service, created on first use.

    given: the user's own boto3.Session. Without one, boto3's usual configuration chain is read, and
    read again once the credentials have expired, so that a renewal by another program is noticed.
    """

    def __init__(self, region: str | None, given: boto3.Session | None = None) -> None:
        self._given = given
        self._region = region
        self._session = given
        self._clients: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def region(self) -> str:
        """The given or configured region; raises CloudError if there is none."""
        if self._region is None:
            with translate_errors():
                # Containers and the AWS SDKs of other languages read AWS_REGION.
                found = self._boto().region_name or os.environ.get("AWS_REGION")
            if not found:
                raise no_region()
            self._region = str(found)
        return self._region

    @property
    def are_local(self) -> bool:
        """True if AWS_ENDPOINT_URL names this machine."""
        with self.client("sagemaker") as client:
            return urlsplit(client.meta.endpoint_url).hostname in _THIS_MACHINE

    @property
    def boto_session(self) -> Any:
        """The boto3 session: the user's own, or one with boto3's usual configuration."""
        return self._boto()

    @contextmanager
    def client(self, service: str) -> Iterator[Any]:
        """Yield a service's client, and translate its errors into ours while it is used."""
        try:
            with translate_errors():
                yield self._client(service)
        except CredentialsExpired:
            self._reset()
            raise

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._create(service)
            return self._clients[service]

    def _create(self, service: str) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_S3_READ_SECONDS if service == "s3" else _READ_SECONDS,
            max_pool_connections=_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS.get(service, 1)},
        )
        client = self._boto().client(service, region_name=self.region, config=config)
        guard_calls(client)
        return client

    def _boto(self) -> Any:
        with self._lock:
            if self._session is None:
                import boto3

                self._session = boto3.Session()
            return self._session

    def _reset(self) -> None:
        with self._lock:
            self._clients.clear()
            self._session = self._given
