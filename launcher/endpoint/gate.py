"""Who may ask: this machine's own programs, with the endpoint's access key.

What is asked may be run, so a web page (Origin), a name that somebody else's DNS answers (Host),
and a program without the key are all refused.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import time
from calendar import timegm
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from launcher.endpoint.refusal import Refusal
from launcher.endpoint.signature import Scope, SignedRequest

LOOPBACK = "127.0.0.1"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\S+?), ?SignedHeaders=(\S+?), ?Signature=([0-9a-f]{64})"
)
_UNSIGNED = "UNSIGNED-PAYLOAD"
#: How far a request's time may be from ours; AWS allows the same.
_SKEW_SECONDS = 15 * 60

#: The secret that goes with an access key id; None: there is no such key.
Secrets = Callable[[str], "str | None"]


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What a request carries of Signature Version 4, in its header or in its query."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    time: str
    is_presigned: bool


class Gate:
    """Lets a request through, or refuses it.

    port: of our own address; secrets: the keys that are known.
    """

    def __init__(self, port: int, secrets: Secrets) -> None:
        self._hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        self._secrets = secrets

    def admit(self, request: Any) -> Scope:
        """The scope of a request (werkzeug's) that was signed with a known key.

        Raises Refusal with status 403.
        """
        self._check_origin(request)
        credential = credential_of(request)
        secret = self._secrets(credential.scope.access_key)
        if secret is None:
            raise forbidden(credential.scope.service, "unknown key")
        self._check_time(credential)
        if not hmac.compare_digest(
            _covered(request, credential).signature(secret), credential.signature
        ):
            raise forbidden(credential.scope.service, "wrong signature")
        return credential.scope

    def _check_origin(self, request: Any) -> None:
        if request.headers.get("Host") not in self._hosts:
            raise Refusal("AccessDenied", f"this is {' or '.join(sorted(self._hosts))}", 403)
        if "Origin" in request.headers:
            raise Refusal("AccessDenied", "web pages may not ask this endpoint", 403)

    def _check_time(self, credential: Credential) -> None:
        if credential.is_presigned:
            return  # its key is known; how long it is valid is the business of who made it
        try:
            sent = timegm(time.strptime(credential.time, "%Y%m%dT%H%M%SZ"))
        except ValueError:
            sent = 0
        if abs(time.time() - sent) > _SKEW_SECONDS:
            raise Refusal("RequestExpired", f"Signature expired: {credential.time}", 403)


def forbidden(service: str, why: str) -> Refusal:
    """The refusal in the words of the service's protocol."""
    codes = {
        "unknown key": (
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "InvalidAccessKeyId",
        ),
        "wrong signature": (
            "InvalidSignatureException",
            "SignatureDoesNotMatch",
            "SignatureDoesNotMatch",
        ),
    }
    messages = {
        "unknown key": "The security token included in the request is invalid.",
        "wrong signature": "The request signature we calculated does not match the signature you "
        "provided. Check your AWS Secret Access Key and signing method.",
    }
    json_code, query_code, s3_code = codes[why]
    code = {"s3": s3_code, "iam": query_code, "sts": query_code, "ec2": query_code}.get(
        service, json_code
    )
    return Refusal(code, messages[why], 403)


def credential_of(request: Any) -> Credential:
    """The credential in the Authorization header, or in the query of a presigned URL."""
    try:
        if "X-Amz-Signature" in request.args:
            return _presigned(request)
        match = _AUTHORIZATION.fullmatch(request.headers["Authorization"])
        if match is None:
            raise ValueError("another form")
        credential, headers, signature = match.groups()
        return Credential(
            scope=Scope.parse(credential),
            signed_headers=tuple(headers.split(";")),
            signature=signature,
            time=request.headers.get("X-Amz-Date", ""),
            is_presigned=False,
        )
    except (KeyError, ValueError) as error:
        raise Refusal(
            "MissingAuthenticationTokenException",
            "Missing Authentication Token: sign the request (Signature Version 4) with the key "
            "that `launcher endpoint` has printed",
            403,
        ) from error


def _presigned(request: Any) -> Credential:
    return Credential(
        scope=Scope.parse(unquote(request.args["X-Amz-Credential"])),
        signed_headers=tuple(request.args["X-Amz-SignedHeaders"].split(";")),
        signature=request.args["X-Amz-Signature"],
        time=request.args["X-Amz-Date"],
        is_presigned=True,
    )


def _covered(request: Any, credential: Credential) -> SignedRequest:
    return SignedRequest(
        scope=credential.scope,
        time=credential.time,
        method=request.method,
        target=request.environ["REQUEST_URI"],
        signed_headers=credential.signed_headers,
        header=lambda name: request.headers.get(name, ""),
        payload_hash=_payload_hash(request, credential),
    )


def _payload_hash(request: Any, credential: Credential) -> str:
    """S3 says it in a header, since its bodies may be large; of any other body we compute it."""
    if credential.scope.service == "s3":
        said = request.headers.get("X-Amz-Content-Sha256")
        return _UNSIGNED if credential.is_presigned else said or _UNSIGNED
    body = request.environ["wsgi.input"].read(request.content_length or 0)
    request.environ["wsgi.input"] = io.BytesIO(body)
    return hashlib.sha256(body).hexdigest()
