"""The body of a request before anyone reads it: of a length that it may have, its chunks joined."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import IO, cast

from launcher.client.endpoint.responses import ApiError

#: S3's limit of one request. Source: API reference, PutObject.
_LARGEST = 5 << 30
_PIECE = 1 << 20
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})(;[^\r\n]*)?\r?\n")
_LONGEST_LINE = 8192


def prepared_body(environ: Mapping[str, object], service: str) -> dict[str, object]:
    """Return the changes of a WSGI environment for its body; raise ApiError for an invalid one.

    Whoever reads a body that came in chunks has its content and its length.
    """
    if str(environ.get("HTTP_TRANSFER_ENCODING", "")).strip().lower() != "chunked":
        if service == "s3" and _length(environ) > _LARGEST:  # others allow much less
            raise _too_large()
        return {}
    source = cast("IO[bytes]", environ["wsgi.input"])
    body = io.BytesIO()  # moto keeps objects in memory, too
    while size := _chunk_size(source):
        if body.tell() + size > _LARGEST:
            raise _too_large()
        _copy(source, body, size)
        if source.readline(_LONGEST_LINE).strip():
            raise _incomplete("a chunk is longer than it says")
    while source.readline(_LONGEST_LINE).strip():
        pass  # trailers, which nobody reads
    length = body.tell()
    body.seek(0)
    return {
        "wsgi.input": body,
        "wsgi.input_terminated": False,
        "CONTENT_LENGTH": str(length),
        "HTTP_TRANSFER_ENCODING": "",
    }


def _length(environ: Mapping[str, object]) -> float:
    text = str(environ.get("CONTENT_LENGTH") or "")
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _chunk_size(source: IO[bytes]) -> int:
    match = _CHUNK_SIZE.fullmatch(source.readline(_LONGEST_LINE))
    if match is None:
        raise _incomplete("a chunk begins with its size")
    return int(match[1], 16)


def _copy(source: IO[bytes], body: IO[bytes], size: int) -> None:
    while size:
        piece = source.read(min(size, _PIECE))
        if not piece:
            raise _incomplete("the last chunk did not come")
        body.write(piece)
        size -= len(piece)


def _incomplete(what: str) -> ApiError:
    return ApiError("IncompleteBody", f"The body is not what its head promises: {what}.")


def _too_large() -> ApiError:
    return ApiError("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")
