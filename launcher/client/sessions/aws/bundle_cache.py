"""Cache of bundles in S3: a bundle that was uploaded once is copied inside S3 from then on."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from launcher.client.sessions.aws import s3_storage
from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.base import Progress


class BundleCache:
    """Stores objects together with a cached copy of each, at a URI that names its content."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: set[str] = set()
        self._first = threading.Lock()

    def store(
        self,
        content: bytes | Path,
        uri: str,
        shared: str,
        kms_key: str | None,
        progress: Progress | None,
    ) -> None:
        """Store content at `uri`; `shared` is the URI of the cached copy.

        When many jobs are sent at once, the first uploads the content while the others wait.
        """
        with contextlib.ExitStack() as waiting:
            waiting.enter_context(self._first)
            if shared in self._known:
                waiting.close()  # a copy is quick: they need not wait for each other
            # The checksum is S3's own, of the copy: an object that was tampered with is not used.
            checksum = s3_storage.copy(self._clients, shared, uri, kms_key)
            if checksum != s3_storage.sha256_of(content):
                s3_storage.upload(self._clients, content, uri, kms_key, progress)
                # If S3 refuses the next line, the next job uploads its bundle again.
                s3_storage.copy(self._clients, uri, shared, kms_key)
            self._known.add(shared)
