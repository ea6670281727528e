"""Objects in S3: stored whole, copied inside S3 where the same bytes are there, fetched."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.errors import Refused
from launcher.sessions.aws.clients import Clients
from launcher.sessions.base import Progress

_ABSENT = ("NoSuchKey", "404", "NotFound")
_DENIED = ("AccessDenied", "403", "Forbidden")


def address(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URI.

    >>> address("s3://bucket/some/key")
    ('bucket', 'some/key')
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def upload(clients: Clients, content: bytes, uri: str, kms_key: str | None = None) -> None:
    """Store one object; a big one travels in parts."""
    bucket, key = address(uri)
    with clients.client("s3") as s3:
        s3.upload_fileobj(io.BytesIO(content), bucket, key, ExtraArgs=encryption(kms_key))


def upload_once(
    clients: Clients, content: bytes, uri: str, shared: str, kms_key: str | None = None
) -> None:
    """Store one object whose content is also kept at `shared`, for the next that has the same.

    The bytes travel once. What was copied is compared by the checksum that S3 makes of it, so that
    an object that somebody has changed is not used.
    """
    if copy(clients, shared, uri, kms_key) != _checksum(content):
        upload(clients, content, uri, kms_key)
        copy(clients, uri, shared, kms_key)


def copy(clients: Clients, source: str, uri: str, kms_key: str | None = None) -> str | None:
    """Copy an object inside S3, without its bytes passing here; its checksum, None if it is absent.

    So is an object that we may not read or write: what is kept for the next job is no duty.
    """
    bucket, key = address(uri)
    from_bucket, from_key = address(source)
    try:
        with clients.client("s3") as s3:
            answer = s3.copy_object(
                CopySource={"Bucket": from_bucket, "Key": from_key},
                Bucket=bucket,
                Key=key,
                ChecksumAlgorithm="SHA256",
                **encryption(kms_key),
            )
    except Refused as error:
        if error.code not in (*_ABSENT, *_DENIED):
            raise
        return None
    checksum: str | None = answer["CopyObjectResult"].get("ChecksumSHA256")
    return checksum


def download(clients: Clients, uri: str, path: Path, progress: Progress | None) -> None:
    """Copy one object into a file; boto writes to a temporary name beside it, and renames."""
    bucket, key = address(uri)
    try:
        with clients.client("s3") as s3:
            size = int(s3.head_object(Bucket=bucket, Key=key)["ContentLength"])
            s3.download_file(bucket, key, str(path), Callback=_told(progress, size))
    except Refused as error:
        error.add(f"  object: {uri}")  # which S3 does not name
        raise
    if progress and size == 0:
        progress(0, 0)


def encryption(kms_key: str | None) -> Mapping[str, Any]:
    """The arguments of S3 for a KMS key; none for the bucket's own default."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}


def _checksum(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def _told(progress: Progress | None, size: int) -> Callable[[int], None] | None:
    """boto's callback, which counts each piece, from several threads."""
    if progress is None:
        return None
    lock, copied = threading.Lock(), 0

    def count(piece: int) -> None:
        nonlocal copied
        with lock:
            copied += piece
            progress(copied, size)

    return count
