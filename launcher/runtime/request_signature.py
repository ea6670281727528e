"""AWS's Signature Version 4 of a request, made with the standard library.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

from launcher.runtime.role_credentials import AwsCredentials

_ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    credentials: AwsCredentials,
    *,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """Return the headers of a POST request without a query, with its signature.

    now: in UTC.
    """
    parts = urlsplit(url)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    sent = {**headers, "Host": parts.netloc, "X-Amz-Date": stamp}
    if credentials.token is not None:
        sent["X-Amz-Security-Token"] = credentials.token
    lines = sorted((name.lower(), " ".join(value.split())) for name, value in sent.items())
    names = ";".join(name for name, _ in lines)
    canonical = "\n".join(
        [
            "POST",
            parts.path or "/",
            "",
            *(f"{name}:{value}" for name, value in lines),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{now:%Y%m%d}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = _hmac(_key(credentials, scope), f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}").hex()
    who = f"Credential={credentials.key_id}/{scope}"
    sent["Authorization"] = f"{_ALGORITHM} {who}, SignedHeaders={names}, Signature={signature}"
    return sent


def _key(credentials: AwsCredentials, scope: str) -> bytes:
    """Return the key of one day, region and service."""
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
