"""Hints for frequent AWS errors: what each means for a training job, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass

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


def fix_for(code: str, message: str) -> str | None:
    """Return the hint for an error; None if there is only AWS's own text."""
    for hint in _HINTS:
        if code in hint.codes and hint.within in message:
            return hint.fix
    return None
