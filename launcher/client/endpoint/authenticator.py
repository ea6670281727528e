"""Authentication: accept only programs on this machine that have the endpoint's access key.

Requests may run code, so these are refused: a web page (Origin), a host name that a
foreign DNS resolves (Host), and a program without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import math
import re
import time
from calendar import timegm
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.endpoint.responses import ApiError
from launcher.client.endpoint.signature import Credential, Scope, SignedRequest

if TYPE_CHECKING:
    from werkzeug.wrappers import Request


LOOPBACK = "127.0.0.1"
_UNSIGNED = "UNSIGNED-PAYLOAD"
#: A body's hash; other values say that the body is signed in chunks, or not at all.
_SHA256 = re.compile("[0-9a-f]{64}")
#: How far a request's time may be ahead of ours; AWS allows the same.
_SKEW_SECONDS = 15 * 60
#: For a request that is read whole before its signature is verified; AWS's JSON services allow
#: no request this large.
_LARGEST_BODY = 16 * 2**20
#: These are always signed, even when they are not among the signed headers.
_ALWAYS_COVERED = {"x-amz-date", "x-amz-content-sha256"}
#: Codes of the services that answer in XML; the others have their own.
_UNKNOWN_KEY = {
    "s3": "InvalidAccessKeyId",
    **dict.fromkeys(("iam", "sts", "ec2"), "InvalidClientTokenId"),
}
_EXPIRED_TOKEN = {"s3": "ExpiredToken", **dict.fromkeys(("iam", "sts", "ec2"), "ExpiredToken")}
_WRONG_SIGNATURE = dict.fromkeys(("s3", "iam", "sts", "ec2"), "SignatureDoesNotMatch")


@dataclass(frozen=True, kw_only=True)
class Secret:
    """The secret of an access key. session_token, valid_until: of a key that was lent for a time.

    Our own key has no token; one that a client sends with it is left over from another account,
    and means nothing.
    """

    text: str
    session_token: str | None = None
    valid_until: float = math.inf


#: Returns the secret of an access key id, or None if there is no such key.
Secrets = Callable[[str], "Secret | None"]


class Authenticator:
    """Accepts a request, or rejects it with status 403.

    port: our own; secrets: looks up the secret of a key.
    """

    def __init__(self, port: int, secrets: Secrets) -> None:
        self._hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        self._secrets = secrets

    def authenticate(self, request: Request, credential: Credential) -> None:
        """Raise ApiError for a request (werkzeug's) from elsewhere, or not as it was signed."""
        self._check_origin(request)
        service = credential.scope.service
        secret = self._secrets(credential.scope.access_key)
        if secret is None or not _has_token(credential, secret):
            code = _UNKNOWN_KEY.get(service, "UnrecognizedClientException")
            raise ApiError(code, "The security token included in the request is invalid.", 403)
        if time.time() > secret.valid_until:
            code = _EXPIRED_TOKEN.get(service, "ExpiredTokenException")
            raise ApiError(code, "The security token included in the request is expired", 403)
        _check_time(credential)
        _check_headers(request, credential)
        signature = _signed_request(request, credential).signature(secret.text)
        if not hmac.compare_digest(signature.encode(), credential.signature.encode()):
            raise ApiError(
                _WRONG_SIGNATURE.get(service, "InvalidSignatureException"),
                "The request signature we calculated does not match the signature you provided. "
                "Check your AWS Secret Access Key and signing method.",
                403,
            )
        if service == "s3":
            _check_content(request, credential, secret.text)

    def _check_origin(self, request: Request) -> None:
        if request.headers.get("Host") not in self._hosts:
            raise ApiError("AccessDenied", f"this is {' or '.join(sorted(self._hosts))}", 403)
        if "Origin" in request.headers:
            raise ApiError("AccessDenied", "web pages may not call this endpoint", 403)


def _has_token(credential: Credential, secret: Secret) -> bool:
    wanted = secret.session_token
    return wanted is None or hmac.compare_digest(wanted.encode(), credential.token.encode())


def _check_time(credential: Credential) -> None:
    try:
        age = time.time() - timegm(time.strptime(credential.time, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        age = float("inf")
    is_of_its_day = credential.time.startswith(credential.scope.date)
    if not is_of_its_day or not -_SKEW_SECONDS <= age <= credential.valid_seconds:
        raise ApiError("RequestExpired", f"Signature expired: {credential.time}", 403)


def _check_headers(request: Request, credential: Credential) -> None:
    """Refuse unsigned headers, which could extend a presigned URL (X-Amz-Copy-Source)."""
    present = {name.lower() for name, _ in request.headers}
    meant = {"host"} | {name for name in present if name.startswith("x-amz-")} - _ALWAYS_COVERED
    if unsigned := meant.difference(credential.signed_headers):
        raise ApiError(
            "AccessDenied",
            "There were headers present in the request which were not signed: "
            f"{', '.join(sorted(unsigned))}",
            403,
        )


def _signed_request(request: Request, credential: Credential) -> SignedRequest:
    return SignedRequest(
        scope=credential.scope,
        time=credential.time,
        method=request.method,
        target=request.environ["REQUEST_URI"],
        signed_headers=credential.signed_headers,
        header=lambda name: request.headers.get(name, ""),
        payload_hash=_payload_hash(request, credential),
    )


def _check_content(request: Request, credential: Credential, secret: str) -> None:
    """Refuse a body for S3 that is not the one that was signed, by its hash or in chunks."""
    stated = request.headers.get("X-Amz-Content-Sha256", "")
    if _SHA256.fullmatch(stated):
        if hashlib.sha256(_kept_body(request)).hexdigest() != stated:
            raise ApiError(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )
    elif stated in (SIGNED_CHUNKS, SIGNED_TRAILER):
        scope = credential.scope
        signer = ChunkSigner(key=scope.signing_key(secret), time=credential.time, scope=scope)
        length = signed_length(
            _kept_body(request),
            signer,
            credential.signature,
            has_trailer=stated == SIGNED_TRAILER,
        )
        if length is None:
            raise ApiError("SignatureDoesNotMatch", "A chunk is not what was signed.", 403)
        if request.headers.get("X-Amz-Decoded-Content-Length") != str(length):
            raise ApiError("IncompleteBody", f"The chunks have {length} bytes.")


def _kept_body(request: Request) -> bytes:
    """Read the body, and leave it to be read again."""
    body: bytes = request.stream.read()
    request.environ["wsgi.input"] = io.BytesIO(body)
    return body


def _payload_hash(request: Request, credential: Credential) -> str:
    """Return the payload's hash: from a header for S3's large bodies, else computed here."""
    if credential.scope.service == "s3":
        return str(request.headers.get("X-Amz-Content-Sha256", _UNSIGNED))
    if (request.content_length or 0) > _LARGEST_BODY:
        raise ApiError("RequestEntityTooLargeException", "Request size exceeded.", 413)
    body = request.environ["wsgi.input"].read(request.content_length or 0)
    request.environ["wsgi.input"] = io.BytesIO(body)
    return hashlib.sha256(body).hexdigest()


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
