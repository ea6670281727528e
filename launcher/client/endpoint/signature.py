"""Signature Version 4: a request's credential, and the signature as a server computes it.

Source: "Create a signed AWS API request" in the IAM user guide.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from launcher.client.endpoint.responses import ApiError

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\S+?), ?SignedHeaders=(\S+?), ?Signature=([0-9a-f]{64})"
)
_TOKEN = "X-Amz-Security-Token"
#: For a signature in a header; a presigned URL states its own duration.
_VALID_SECONDS = 15 * 60
#: The longest validity that S3 allows for a presigned URL.
_WEEK_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The scope that a key was derived for: "KEY/20261122/us-east-1/s3/aws4_request"."""

    access_key: str
    date: str
    region: str
    service: str

    @classmethod
    def parse(cls, credential: str) -> Scope:
        """Parse a credential; raise ValueError for another form."""
        access_key, date, region, service, terminator = credential.rsplit("/", 4)
        if terminator != "aws4_request":
            raise ValueError(credential)
        return cls(access_key=access_key, date=date, region=region, service=service)

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"

    def signing_key(self, secret: str) -> bytes:
        """Return the key that the owner of the secret signs with."""
        key = f"AWS4{secret}".encode()
        for part in str(self).split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """Everything that a signature covers.

    target: path and query as they were sent; header: returns a header's value by its name;
    payload_hash: as the client states it, or as computed here.
    """

    scope: Scope
    time: str
    method: str
    target: str
    signed_headers: Sequence[str]
    header: Callable[[str], str]
    payload_hash: str

    def signature(self, secret: str) -> str:
        """Return the signature that the owner of the secret would send, in hexadecimal digits."""
        digest = hashlib.sha256(self._canonical().encode()).hexdigest()
        text = "\n".join([_ALGORITHM, self.time, str(self.scope), digest])
        key = self.scope.signing_key(secret)
        return hmac.new(key, text.encode(), "sha256").hexdigest()

    def _canonical(self) -> str:
        path, _, query = self.target.partition("?")
        headers = [
            f"{name}:{' '.join(self.header(name).split())}\n" for name in self.signed_headers
        ]
        return "\n".join(
            [
                self.method,
                self._canonical_path(path),
                _canonical_query(query),
                "".join(headers),
                ";".join(self.signed_headers),
                self.payload_hash,
            ]
        )

    def _canonical_path(self, path: str) -> str:
        """Encode the path: S3 signs it as it is sent; every other service encodes it once more."""
        if self.scope.service == "s3":
            return quote(unquote(path), safe=f"/{_UNRESERVED}")
        return quote(path, safe=f"/{_UNRESERVED}")


def _canonical_query(query: str) -> str:
    """Sort the query by name and value, and omit a signature that is itself part of it."""
    pairs = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name != "X-Amz-Signature":
            pairs.append(tuple(quote(unquote(each), safe=_UNRESERVED) for each in (name, value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


@dataclass(frozen=True, kw_only=True)
class Credential:
    """A claim that is not verified yet.

    time: as it was signed, "20261122T001500Z"; token: of the session, "" for a key without one.
    """

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    time: str
    token: str
    valid_seconds: int = _VALID_SECONDS


def credential_of(request: Any) -> Credential:
    """Return the credential of a request (werkzeug's); ApiError (403) if it has none."""
    is_presigned = "X-Amz-Signature" in request.args
    if is_presigned and "Authorization" in request.headers:
        # Routing uses the header, which may name another service than the URL was signed for.
        raise ApiError("InvalidArgument", "Only one auth mechanism allowed")
    try:
        return _presigned(request) if is_presigned else _in_header(request)
    except (KeyError, ValueError) as error:
        raise ApiError(
            "MissingAuthenticationTokenException",
            "Missing Authentication Token: sign the request (Signature Version 4) with the key "
            "that `launcher endpoint` has printed",
            403,
        ) from error


def _in_header(request: Any) -> Credential:
    match = _AUTHORIZATION.fullmatch(request.headers["Authorization"])
    if match is None:
        raise ValueError("another form")
    credential, headers, signature = match.groups()
    return Credential(
        scope=Scope.parse(credential),
        signed_headers=tuple(headers.split(";")),
        signature=signature,
        time=request.headers["X-Amz-Date"],
        token=request.headers.get(_TOKEN, ""),
    )


def _presigned(request: Any) -> Credential:
    valid_seconds = int(request.args["X-Amz-Expires"])
    if not 0 <= valid_seconds <= _WEEK_SECONDS:
        raise ValueError("a week at most")
    return Credential(
        scope=Scope.parse(request.args["X-Amz-Credential"]),
        signed_headers=tuple(request.args["X-Amz-SignedHeaders"].split(";")),
        signature=request.args["X-Amz-Signature"],
        time=request.args["X-Amz-Date"],
        token=request.args.get(_TOKEN, ""),
        valid_seconds=valid_seconds,
    )
