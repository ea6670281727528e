"""Translate boto's errors into ours, in one place; AWS's code, text and request id are kept.

Frequent errors get a hint: what they mean for a training job, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from launcher.client.sessions.aws.response_check import NETWORK_FIX, foreign_response
from launcher.client.transfer_limit import TransferTooLarge
from launcher.errors import CapacityError, CloudError, CredentialsExpired, Refused, Unreachable
from launcher.shared import printable

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_NO_CAPACITY = frozenset(
    {"CapacityError", "InsufficientCapacityException", "InsufficientInstanceCapacity"}
)
#: botocore's classes by name: those of `aws login` are newer than the oldest botocore we support.
_EXPIRED_HERE = frozenset(
    {
        "CredentialRetrievalError",
        "LoginRefreshRequired",
        "LoginTokenLoadError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
_RENEW = "renew them: `aws sso login`, `aws login`, or new keys with `aws configure`"


_ACCESS_DENIED = ("AccessDenied", "AccessDeniedException", "403", "Forbidden")
_WRONG_KEYS = (
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "AuthFailure",
)
#: S3's codes for a bucket that does not exist, or that we may not use; a HEAD gets only a status.
NO_BUCKET = ("404", "NoSuchBucket", "NotFound")
BUCKET_DENIED = ("403", "AccessDenied", "Forbidden")
THROTTLED = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequests",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "429",
    }
)
_QUOTAS = "https://console.aws.amazon.com/servicequotas/home/services/sagemaker/quotas"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Run calls of boto, and translate its errors into CloudError and its subclasses.

    Raises Refused, Unreachable, CredentialsExpired, CapacityError, or CloudError itself.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, PaginationError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        raise from_response(error.response) from error
    except Boto3Error as error:
        # boto3's transfers wrap it around the error of a part
        if isinstance(error.__context__, ClientError):
            raise from_response(error.__context__.response) from error
        raise Unreachable(_with_fix(str(error), "try again")) from error
    except ResponseParserError as error:  # a proxy's page instead of XML
        text = " ".join(str(error).split())
        raise foreign_response("a call", f"got {text}") from error
    except PaginationError as error:
        raise foreign_response("a list", "repeats a token") from error
    except (BotoCoreError, ValueError) as error:  # ValueError: an invalid address
        found = _closed_by_proxy(error) or error
        raise _from_boto(found) from found


def from_response(response: Mapping[str, Any]) -> CloudError:
    """Return the exception for an error response of AWS."""
    answer, metadata = response.get("Error", {}), response.get("ResponseMetadata", {})
    # A proxy's page has no code; fall back to the status.
    code = str(answer.get("Code") or metadata.get("HTTPStatusCode", "?"))
    message, request_id = str(answer.get("Message", "")), metadata.get("RequestId")
    kind: type[CloudError] = Refused
    if code in _EXPIRED:
        kind = CredentialsExpired
    elif code in _NO_CAPACITY:
        kind = CapacityError
    fix = _RENEW if kind is CredentialsExpired else _fix_for(code, message)
    text = printable(f"{code}: {message}", keep_styles=False) + (
        f" (request id {request_id})" if request_id else ""
    )
    return kind(_with_fix(text, fix), code=code, request_id=request_id)


def _closed_by_proxy(error: Exception) -> Exception | None:
    """Return the error of a connection that a proxy closed before an answer; None for others.

    urllib3 2.8 says of one over plain HTTP that the proxy could not be reached, which it was.
    """
    from botocore.exceptions import ConnectionClosedError, ProxyConnectionError

    if not isinstance(error, ProxyConnectionError):
        return None
    cause = getattr(error.kwargs.get("error"), "original_error", None)
    is_closed = isinstance(cause, ConnectionError)  # a refusal is an error of urllib3's own
    return ConnectionClosedError(endpoint_url=error.kwargs["proxy_url"]) if is_closed else None


def _from_boto(error: Exception) -> CloudError:
    """Return the exception for one of boto's own errors, without an answer from AWS."""
    from botocore import exceptions as boto

    if type(error).__name__ in _EXPIRED_HERE:
        return CredentialsExpired(_with_fix(str(error), _RENEW))
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        fix = "run `aws configure` or `aws sso login`, or set AWS_PROFILE"
        return CloudError(_with_fix(f"no AWS credentials were found ({error})", fix))
    if isinstance(error, boto.NoRegionError):
        return no_region()
    if isinstance(error.__context__, TransferTooLarge):
        return foreign_response("a call", f"has {error.__context__}")
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError):
        fix = NETWORK_FIX
        if isinstance(error, boto.EndpointConnectionError) and _is_this_machine(str(error)):
            fix = "start `launcher endpoint`, or unset AWS_ENDPOINT_URL (it points to this machine)"
        return Unreachable(_with_fix(f"AWS does not respond: {error}", fix))
    one_line = " ".join(str(error).split())
    if isinstance(error, boto.FlexibleChecksumError | boto.IncompleteReadError):
        return foreign_response("GetObject", f"is damaged: {one_line}")
    if isinstance(error, boto.ParamValidationError):  # refused before it was sent
        return Refused(_with_fix(one_line, "correct this name or URI"))
    return CloudError(_with_fix(one_line, "check the AWS_* variables and the files in ~/.aws"))


def _is_this_machine(message: str) -> bool:
    return "://127.0.0.1:" in message or "://localhost:" in message


def no_region() -> CloudError:
    """Return the error for a missing AWS region."""
    fix = "export AWS_DEFAULT_REGION=us-east-1, or run: aws configure set region us-east-1"
    return CloudError(_with_fix("no AWS region is configured", fix))


def _with_fix(what: str, fix: str | None) -> str:
    return f"{what}\n  fix: {fix}" if fix else what


@dataclass(frozen=True)
class _ErrorHint:
    """A hint for an error.

    codes: AWS's error codes; within: a part of the message ("": any); fix: what to do.
    """

    codes: tuple[str, ...]
    within: str
    fix: str


# The first match wins.
_HINTS = (
    _ErrorHint(
        _ACCESS_DENIED,
        "iam:PassRole",
        "you may not pass this role to SageMaker: request iam:PassRole on it, or use another role",
    ),
    _ErrorHint(
        _ACCESS_DENIED,
        "sagemaker:CreateTrainingJob",
        "your identity may not create training jobs: request sagemaker:CreateTrainingJob "
        "(`aws sts get-caller-identity` shows your identity)",
    ),
    _ErrorHint(
        _ACCESS_DENIED,
        "",
        "your identity lacks this permission: request it, or set AWS_PROFILE to another identity "
        "(`aws sts get-caller-identity` shows yours)",
    ),
    _ErrorHint(
        ("ResourceLimitExceeded",),
        "",
        "the account's quota for this instance type is too small: request an increase at "
        f'{_QUOTAS} ("ml.TYPE for training job usage"), or wait for other jobs to end',
    ),
    _ErrorHint(
        ("ResourceInUse",),
        "",
        "a job's name must be unique within an account and region: use another name, or omit it",
    ),
    _ErrorHint(
        _WRONG_KEYS,
        "",
        "AWS does not recognise these keys: check AWS_PROFILE, the AWS_* variables, ~/.aws and "
        "this machine's clock",
    ),
    _ErrorHint(
        ("RequestTimeTooSkewed", "RequestExpired"), "", "this machine's clock is wrong: set it"
    ),
    _ErrorHint(
        ("400",),
        "",
        "S3 gives no reason for a failed HEAD; often the credentials have expired: renew them "
        "(`aws sso login`)",
    ),
    _ErrorHint(("NoSuchBucket",), "", "create the bucket, or use another one"),
    _ErrorHint(("NoSuchKey", "404"), "", "the object does not exist: check the URI"),
    _ErrorHint(
        ("ValidationException",),
        "Could not assume role",
        "allow sagemaker.amazonaws.com to assume the role in its trust policy",
    ),
    _ErrorHint(
        ("OptInRequired", "SubscriptionRequiredException"),
        "",
        "the account is not signed up for this service in this region",
    ),
    _ErrorHint(
        ("500", "502", "503", "504", "InternalError", "InternalFailure", "ServiceUnavailable"),
        "",
        "AWS, or a proxy before it, has a fault of its own: try again in a minute",
    ),
    _ErrorHint(tuple(sorted(THROTTLED)), "", "AWS throttles the requests: try again in a minute"),
)


def _fix_for(code: str, message: str) -> str | None:
    """Return the hint for an error; None if there is only AWS's own text."""
    for hint in _HINTS:
        if code in hint.codes and hint.within in message:
            return hint.fix
    return None
