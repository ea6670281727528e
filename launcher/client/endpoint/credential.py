"""Signature Version 4 of a request, from its headers or from the query of its URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from launcher.client.endpoint.api_error import ApiError
from launcher.client.endpoint.signature import Scope

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\S+?), ?SignedHeaders=(\S+?), ?Signature=([0-9a-f]{64})"
)
_TOKEN = "X-Amz-Security-Token"
#: For a signature in a header; a presigned URL states its own duration.
_VALID_SECONDS = 15 * 60
#: The longest validity that S3 allows for a presigned URL.
_WEEK_SECONDS = 7 * 24 * 3600


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
