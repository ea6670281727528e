"""Bodies for S3 that are signed chunk by chunk, each signature made from the one before.

Source: "Transferring payload in multiple chunks" and "Including trailing headers" of Signature
Version 4 in the S3 API reference.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from launcher.client.endpoint.signature import Scope

#: What X-Amz-Content-Sha256 says of such a body.
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = f"{SIGNED_CHUNKS}-TRAILER"
_HEAD = re.compile(rb"([0-9a-fA-F]{1,8});chunk-signature=([0-9a-f]{64})\r\n")
_TRAILER_SIGNATURE = b"x-amz-trailer-signature:"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, kw_only=True)
class ChunkSigner:
    """Signs the chunks of a request. key: the signing key of its scope; time: as it was signed."""

    key: bytes
    time: str
    scope: Scope

    def chunk(self, previous: str, content: bytes) -> str:
        """Return the signature of a chunk. previous: that of the chunk or the head before it."""
        digest = hashlib.sha256(content).hexdigest()
        return self._sign("AWS4-HMAC-SHA256-PAYLOAD", previous, _EMPTY, digest)

    def trailer(self, previous: str, headers: bytes) -> str:
        r"""Return the signature of the headers behind the last chunk, each "name:value\n"."""
        digest = hashlib.sha256(headers).hexdigest()
        return self._sign("AWS4-HMAC-SHA256-TRAILER", previous, digest)

    def _sign(self, *parts: str) -> str:
        algorithm, *rest = parts
        text = "\n".join([algorithm, self.time, str(self.scope), *rest])
        return hmac.new(self.key, text.encode(), "sha256").hexdigest()


def signed_length(body: bytes, signer: ChunkSigner, seed: str, *, has_trailer: bool) -> int | None:
    """Return the bytes of the chunks' content; None if a part is not what was signed.

    seed: the signature of the request's head. has_trailer: True if headers follow the last chunk.
    """
    position, length, previous = 0, 0, seed
    while True:
        head = _HEAD.match(body, position)
        if head is None:
            return None
        size, position = int(head[1], 16), head.end()
        content = body[position : position + size]
        previous = signer.chunk(previous, content)
        if len(content) < size or not hmac.compare_digest(previous.encode(), head[2]):
            return None
        position, length = position + size, length + size
        if size == 0:
            break
        if body[position : position + 2] != b"\r\n":
            return None
        position += 2
    rest = body[position:]
    if has_trailer:
        return length if _is_trailer(rest, signer, previous) else None
    return None if rest.strip(b"\r\n") else length


def _is_trailer(text: bytes, signer: ChunkSigner, previous: str) -> bool:
    *headers, last = [line.strip() for line in text.splitlines() if line.strip()] or [b""]
    signed = signer.trailer(previous, b"".join(line + b"\n" for line in headers))
    return hmac.compare_digest(last, _TRAILER_SIGNATURE + signed.encode())
