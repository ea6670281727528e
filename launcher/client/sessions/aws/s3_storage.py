"""Objects in S3: upload, copy inside S3, and download."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.base import Progress
from launcher.client.sessions.s3_uris import bucket_and_key
from launcher.errors import Refused


def upload(clients: Clients, content: bytes, uri: str, kms_key: str | None = None) -> None:
    """Store one object; a large one is uploaded in parts."""
    bucket, key = bucket_and_key(uri)
    try:
        with clients.client("s3") as s3:
            s3.upload_fileobj(io.BytesIO(content), bucket, key, ExtraArgs=encryption(kms_key))
    except Refused as error:
        error.add(f"  object: {uri}")  # S3's error does not name it
        raise


def copy(clients: Clients, source: str, uri: str, kms_key: str | None = None) -> str | None:
    """Copy an object inside S3; return its SHA-256 in base64, as computed by S3.

    Returns None where S3 refuses: the object does not exist, or we may not read or write it.
    """
    bucket, key = bucket_and_key(uri)
    from_bucket, from_key = bucket_and_key(source)
    try:
        with clients.client("s3") as s3:
            answer = s3.copy_object(
                CopySource={"Bucket": from_bucket, "Key": from_key},
                Bucket=bucket,
                Key=key,
                ChecksumAlgorithm="SHA256",
                **encryption(kms_key),
            )
    except Refused:
        return None
    checksum: str | None = answer["CopyObjectResult"].get("ChecksumSHA256")
    return checksum


def download(clients: Clients, uri: str, path: Path, progress: Progress | None) -> None:
    """Copy one object into a file; boto writes to a temporary name beside it, then renames."""
    bucket, key = bucket_and_key(uri)
    try:
        with clients.client("s3") as s3:
            size = int(s3.head_object(Bucket=bucket, Key=key)["ContentLength"])
            s3.download_file(bucket, key, str(path), Callback=_progress_callback(progress, size))
    except Refused as error:
        error.add(f"  object: {uri}")  # S3's error does not name it
        raise
    if progress and size == 0:
        progress(0, 0)


def encryption(kms_key: str | None) -> Mapping[str, Any]:
    """Return S3's arguments for a KMS key; none for the bucket's own default."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}


def _progress_callback(progress: Progress | None, size: int) -> Callable[[int], None] | None:
    """Return a callback for boto, which reports each piece from several threads."""
    if progress is None:
        return None
    lock, copied = threading.Lock(), 0

    def count(piece: int) -> None:
        nonlocal copied
        with lock:
            copied += piece
            progress(copied, size)

    return count
