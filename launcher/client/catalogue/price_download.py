"""Open a file of AWS's public price list over HTTP, as a stream; no credentials are needed."""

from __future__ import annotations

import http.client
import io
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO
from urllib.parse import urlsplit

from launcher.client.transfer_limit import (
    SLOWEST,
    LimitedConnection,
    TransferLimit,
    TransferTooLarge,
)
from launcher.errors import PlatformError, Refused, Unreachable

#: The host of AWS's price list files; the variable replaces it, for example by a mirror.
PRICE_LIST_URL = "https://pricing.us-east-1.amazonaws.com"
PRICE_LIST_VARIABLE = "LAUNCHER_PRICE_LIST"
_PATH = "/offers/v1.0/aws/AmazonSageMaker/current/{region}/index.csv"
#: Seconds without a byte after which the server is given up, and for all of a download, to which
#: its bytes add more.
_SILENCE_SECONDS = 60
#: Bytes; a region's prices have some ten megabytes.
_LARGEST_FILE = 1 << 30


def file_url(region: str, base_url: str | None = None) -> str:
    """Return the address of a region's newest prices; raises PlatformError for an invalid base."""
    base = base_url or os.environ.get(PRICE_LIST_VARIABLE) or PRICE_LIST_URL
    if urlsplit(base).scheme not in ("http", "https"):
        raise PlatformError(f"{base!r} is not the address of a price list: it starts with https://")
    return base.rstrip("/") + _PATH.format(region=region)


@contextmanager
def open_price_file(url: str) -> Iterator[TextIO]:
    """Yield the text of a file of prices.

    Raises Refused for an answer other than 200, and Unreachable for none, for one that ends early
    or not at all, and for a server that is silent for a minute; all but the first also while the
    file is read.
    """
    try:
        opener = urllib.request.build_opener(_PlainHandler, _SecureHandler)
        with opener.open(url, timeout=_SILENCE_SECONDS) as answer:
            counted = io.BufferedReader(_CountedStream(answer))
            yield io.TextIOWrapper(counted, encoding="utf-8", newline="")
    except urllib.error.HTTPError as error:
        raise Refused(
            f"{url} has the answer {error.code} {error.reason}; check the region and the address"
        ) from error
    except UnicodeDecodeError as error:
        raise Unreachable(f"{url} is no text: {error}") from error
    except (OSError, http.client.HTTPException, TransferTooLarge) as error:
        raise Unreachable(f"{url} could not be read: {error or type(error).__name__}") from error


class _LimitedDownload(LimitedConnection):
    def next_limit(self) -> TransferLimit:
        return TransferLimit(_SILENCE_SECONDS, largest=_LARGEST_FILE, slowest=SLOWEST)


class _PlainConnection(_LimitedDownload, http.client.HTTPConnection):
    pass


class _SecureConnection(_LimitedDownload, http.client.HTTPSConnection):
    pass


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PlainConnection, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, request)


class _CountedStream(io.RawIOBase):
    """The body of an answer; raises OSError if it is shorter than its header promises."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._left = answer.length  # None for a chunked body, whose end is marked

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return the number of bytes; 0 at the end."""
        data = self._answer.read(len(buffer))
        if self._left is not None:
            self._left -= len(data)
            if not data and self._left > 0:
                raise OSError(f"it ended {self._left} bytes early")
        buffer[: len(data)] = data
        return len(data)
