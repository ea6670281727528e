"""URIs of objects in S3."""

from __future__ import annotations

_SCHEME = "s3://"


def is_s3(uri: str) -> bool:
    """Return whether a URI is an s3:// URI."""
    return uri.startswith(_SCHEME)


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Split an s3:// URI into bucket and key.

    >>> bucket_and_key("s3://bucket/a/b")
    ('bucket', 'a/b')
    """
    bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
    return bucket, key
