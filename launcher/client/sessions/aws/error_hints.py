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
_READINGS = (
    _ErrorHint(
        _ACCESS_DENIED,
        "iam:PassRole",
        "you may not hand this role to SageMaker: ask for iam:PassRole on it, or name another role",
    ),
    _ErrorHint(
        _ACCESS_DENIED,
        "sagemaker:CreateTrainingJob",
        "your own identity may not create training jobs: ask for sagemaker:CreateTrainingJob "
        "(`aws sts get-caller-identity` says who you are)",
    ),
    _ErrorHint(
        _ACCESS_DENIED,
        "",
        "your own identity lacks this permission: ask for it, or set AWS_PROFILE to another "
        "(`aws sts get-caller-identity` says who you are)",
    ),
    _ErrorHint(
        ("ResourceLimitExceeded",),
        "",
        "the account's quota for this instance type is too small: ask for more at "
        f'{_QUOTAS} ("ml.TYPE for training job usage"), or wait for other jobs to end',
    ),
    _ErrorHint(
        ("ResourceInUse",),
        "",
        "a job's name can be used once in an account and region: give another name, or none",
    ),
    _ErrorHint(
        _WRONG_KEYS,
        "",
        "AWS does not know these keys: check AWS_PROFILE, the AWS_* variables, ~/.aws and this "
        "machine's clock",
    ),
    _ErrorHint(
        ("RequestTimeTooSkewed", "RequestExpired"), "", "set this machine's clock: it is wrong"
    ),
    _ErrorHint(
        ("400",),
        "",
        "S3 says no more to a HEAD; expired credentials look so: renew them (`aws sso login`)",
    ),
    _ErrorHint(("NoSuchBucket",), "", "create the bucket, or name another"),
    _ErrorHint(("NoSuchKey", "404"), "", "there is no such object; check the URI's spelling"),
    _ErrorHint(
        ("ValidationException",),
        "Could not assume role",
        "let sagemaker.amazonaws.com assume the role, in its trust policy",
    ),
    _ErrorHint(
        ("OptInRequired", "SubscriptionRequiredException"),
        "",
        "the account is not signed up for this service in this region",
    ),
    _ErrorHint(tuple(sorted(THROTTLED)), "", "AWS is asked too often: try again in a minute"),
)


def mend(code: str, message: str) -> str | None:
    """Return the hint for an error; None if there is only AWS's own text."""
    for reading in _READINGS:
        if code in reading.codes and reading.within in message:
            return reading.fix
    return None
