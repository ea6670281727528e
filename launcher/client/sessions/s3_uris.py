"""URIs of objects in S3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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


def clashing(files: Mapping[str, Path]) -> tuple[str, str] | None:
    """Return two objects that no folder can hold together, if there are any.

    Their files are the same one, or one of them is where the other needs a folder.
    files: where each object goes, by its URI or key.

    >>> clashing({"a": Path("x/a"), "a/b": Path("x/a/b")})
    ('a', 'a/b')
    """
    owners: dict[Path, str] = {}
    for name, path in files.items():
        owners.setdefault(path, name)
    for name, path in files.items():
        for each in (path, *path.parents):
            if (other := owners.get(each, name)) != name:
                return other, name
    return None
