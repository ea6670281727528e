"""Reading of a job's secrets from AWS Secrets Manager when a host starts.

Source: https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.client import HTTPException
from urllib.parse import urlsplit

from launcher.errors import LauncherError
from launcher.shared import SECRET_ARN, SHORTEST_SECRET, backoff, secret_sources

RELATIVE_URI = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_FULL_URI = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_AUTHORIZATION_TOKEN = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
#: The address that answers a relative URI, inside every container of AWS.
CONTAINER_ORIGIN = "http://169.254.170.2"
_KEYS_REQUEST_SECONDS, _KEYS_SECONDS = 5.0, 30.0
#: HTTPException: an answer that was cut.
_FAILURES = (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class AwsCredentials:
    """Keys that sign requests; `token` belongs to temporary ones."""

    key_id: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def container_credentials(
    environment: Mapping[str, str], origin: str = CONTAINER_ORIGIN
) -> AwsCredentials:
    """Return the credentials of the job's role, or those in AWS's own variables.

    Raises LauncherError when there are none, or when they cannot be read.
    """
    if "AWS_ACCESS_KEY_ID" in environment and "AWS_SECRET_ACCESS_KEY" in environment:
        return AwsCredentials(
            key_id=environment["AWS_ACCESS_KEY_ID"],
            secret_key=environment["AWS_SECRET_ACCESS_KEY"],
            token=environment.get("AWS_SESSION_TOKEN"),
        )
    if relative := environment.get(RELATIVE_URI):
        uri = origin + relative
    elif not (uri := environment.get(_FULL_URI, "")):
        raise LauncherError(
            f"the container has no AWS credentials: {RELATIVE_URI} is not set, as it is in every "
            "training job on SageMaker"
        )
    return _read_keys(uri, environment.get(_AUTHORIZATION_TOKEN))


def _read_keys(uri: str, token: str | None) -> AwsCredentials:
    request = urllib.request.Request(uri, headers={"Authorization": token} if token else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is link-local
    why = ""
    for _ in backoff(first=0.5, longest=5.0, timeout=_KEYS_SECONDS):
        try:
            with opener.open(request, timeout=_KEYS_REQUEST_SECONDS) as answer:
                found = json.load(answer)
            return AwsCredentials(
                key_id=found["AccessKeyId"],
                secret_key=found["SecretAccessKey"],
                token=found.get("Token"),
            )
        except _FAILURES as error:  # noqa: PERF203 - it is tried again
            why = f"{type(error).__name__}: {error}"
    raise LauncherError(f"the container's AWS credentials cannot be read from {uri}: {why}")


_SERVICE = "secretsmanager"
_ENDPOINTS = ("AWS_ENDPOINT_URL_SECRETS_MANAGER", "AWS_ENDPOINT_URL")
_DOMAINS = {"aws-cn": "amazonaws.com.cn"}
_REQUEST_SECONDS, _SECONDS = 10.0, 60.0
#: Answers after which the same request may succeed.
_TRANSIENT = re.compile("Throttl|TooManyRequests|InternalService|ServiceUnavailable")
_FIXES = {
    "AccessDenied": "allow the job's role secretsmanager:GetSecretValue on it, and kms:Decrypt on "
    "its key if that is your own",
    "ResourceNotFound": "give the ARN of a secret that exists",
}


def read_secrets(environment: MutableMapping[str, str], origin: str = CONTAINER_ORIGIN) -> None:
    """Set the variable of each secret that the platform has not set.

    origin: the address of the container's credentials.

    Raises LauncherError for a secret that cannot be read.
    """
    missing = {n: s for n, s in secret_sources(environment).items() if n not in environment}
    if not missing:
        return
    for name, source in missing.items():
        if not SECRET_ARN.fullmatch(source):
            raise LauncherError(
                f"the secret {name} has no value: this platform did not pass it on, and its source "
                "is not the ARN of a secret of AWS Secrets Manager"
            )
    credentials = container_credentials(environment, origin)
    for name, arn in missing.items():
        environment[name] = _value(name, arn, credentials, environment)


def _value(name: str, arn: str, credentials: AwsCredentials, environment: Mapping[str, str]) -> str:
    answer = _get_secret_value(name, arn, credentials, _endpoint(arn, environment))
    value = answer.get("SecretString")
    if not isinstance(value, str) or "\0" in value:
        raise LauncherError(f"the secret {name} ({arn}) holds bytes; a variable holds text")
    if len(value) < SHORTEST_SECRET:
        raise LauncherError(
            f"the secret {name} ({arn}) has fewer than {SHORTEST_SECRET} characters, and could not "
            "be kept out of the log"
        )
    return value


def _endpoint(arn: str, environment: Mapping[str, str]) -> str:
    for variable in _ENDPOINTS:
        if url := environment.get(variable):
            return url.rstrip("/") + "/"
    partition, region = _partition_and_region(arn)
    return f"https://{_SERVICE}.{region}.{_DOMAINS.get(partition, 'amazonaws.com')}/"


def _partition_and_region(arn: str) -> tuple[str, str]:
    _, partition, _, region, *_ = arn.split(":")
    return partition, region


def _get_secret_value(
    name: str, arn: str, credentials: AwsCredentials, url: str
) -> Mapping[str, object]:
    body = json.dumps({"SecretId": arn}).encode()
    why, fix = "", ""
    for _ in backoff(first=0.5, longest=10.0, timeout=_SECONDS):
        headers = signed_headers(
            url,
            body,
            {
                "Content-Type": "application/x-amz-json-1.1",
                "X-Amz-Target": f"{_SERVICE}.GetSecretValue",
            },
            credentials,
            region=_partition_and_region(arn)[1],
            service=_SERVICE,
            now=datetime.now(timezone.utc),
        )
        request = urllib.request.Request(url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:
                found = json.load(answer)
            if isinstance(found, dict):
                return found
            why = f"{url} answers with no JSON object"
        except urllib.error.HTTPError as error:
            why = _refusal(error)
            fix = next((text for word, text in _FIXES.items() if word in why), "")
            if error.code < 500 and error.code != 429 and not _TRANSIENT.search(why):
                break
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            why = f"{url} cannot be reached: {getattr(error, 'reason', error)}"
            fix = f"hosts in a VPC need a NAT gateway, or an endpoint of {_SERVICE}"
    raise LauncherError(
        f"the secret {name} ({arn}) cannot be read: {why}" + (f"\n  fix: {fix}" if fix else "")
    )


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return AWS's words for a refusal: the type of its error, and the message."""
    try:
        answer = json.load(error)
        kind = str(answer["__type"]).rpartition("#")[2]
        return f"{kind}: {answer.get('message') or answer.get('Message') or error.reason}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, HTTPException):
        return f"HTTP {error.code} {error.reason}"


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
