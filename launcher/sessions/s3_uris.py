"""URIs of objects in S3."""

from __future__ import annotations

_SCHEME = "s3://"


def is_s3(uri: str) -> bool:
    return uri.startswith(_SCHEME)


def bucket_and_key(uri: str) -> tuple[str, str]:
    """
    >>> bucket_and_key("s3://bucket/a/b")
    ('bucket', 'a/b')
    """
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    return bucket, key
