"""boto's clients of one session: bounded in time, safe in threads, renewed with the credentials."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from launcher.errors import CredentialsExpired
from launcher.sessions.aws.foreign import refuse_foreign
from launcher.sessions.aws.translation import no_region, translated

_CONNECT_SECONDS, _READ_SECONDS = 5, 20
#: That a client keeps open; more threads than that open more.
_CONNECTIONS = 50
_THIS_MACHINE = ("127.0.0.1", "localhost")
#: S3's transfers are tried again by boto itself, part by part; all else is tried again by us, who
#: know what may be asked twice.
_ATTEMPTS = {"s3": 5}


class Clients:
    """One client of each service, made when it is first asked for.

    given: the user's own boto3.Session; without one, boto3's usual chain of configuration is read,
    and read again once the credentials have expired: a renewal by another program is noticed.
    """

    def __init__(self, region: str | None, given: Any = None) -> None:
        self._given = given
        self._region = region
        self._session: Any = given
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def region(self) -> str:
        """The region that was given or is configured; CloudError without one."""
        if self._region is None:
            with translated():
                # AWS_REGION is what containers and the AWS SDKs of other languages read.
                found = self._boto().region_name or os.environ.get("AWS_REGION")
            if not found:
                raise no_region()
            self._region = str(found)
        return self._region

    @property
    def are_local(self) -> bool:
        """Whether AWS_ENDPOINT_URL names this machine."""
        with self.client("sagemaker") as client:
            return urlsplit(client.meta.endpoint_url).hostname in _THIS_MACHINE

    @contextmanager
    def client(self, service: str) -> Iterator[Any]:
        """A service's client, whose errors become ours while it is used."""
        try:
            with translated():
                yield self._client(service)
        except CredentialsExpired:
            self._forget()
            raise

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._made:
                self._made[service] = self._make(service)
            return self._made[service]

    def _make(self, service: str) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            max_pool_connections=_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS.get(service, 1)},
        )
        client = self._boto().client(service, region_name=self.region, config=config)
        client.meta.events.register("before-parse.*.*", refuse_foreign)
        return client

    def _boto(self) -> Any:
        with self._lock:
            if self._session is None:
                import boto3

                self._session = boto3.Session()
            return self._session

    def _forget(self) -> None:
        with self._lock:
            self._made.clear()
            self._session = self._given
