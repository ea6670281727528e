"""S3: objects are uploaded, copied inside S3 and downloaded; the default bucket is made at need."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from launcher.client.request import content_hash
from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.error_translation import BUCKET_DENIED, NO_BUCKET
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import retry_read
from launcher.client.sessions.base import Progress
from launcher.client.sessions.s3_uris import bucket_and_key
from launcher.errors import CloudError, Refused, Unreachable
from launcher.shared import replacing

Result = TypeVar("Result")

#: boto's own threshold: larger objects are uploaded in parts, several at a time.
_LARGEST_PART = 8 << 20
_MD5 = re.compile("[0-9a-f]{32}")


_FOREIGN_CODES = (*BUCKET_DENIED, "BucketAlreadyExists")
#: The one region that create_bucket does not accept as a location constraint.
_FIRST_REGION = "us-east-1"


def upload(
    clients: Clients,
    content: bytes | Path,
    uri: str,
    kms_key: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Store one object, and compare what S3 says of it; a large one is uploaded in parts."""
    bucket, key = bucket_and_key(uri)
    size = len(content) if isinstance(content, bytes) else content.stat().st_size

    def call() -> None:
        with clients.client("s3") as s3:
            if size <= _LARGEST_PART:
                options = {"ChecksumAlgorithm": "SHA256", **encryption(kms_key)}
                body = content if isinstance(content, bytes) else content.read_bytes()
                answer = s3.put_object(Bucket=bucket, Key=key, Body=body, **options)
                is_stored = is_tag_of(body, answer)
            else:
                counted = {"Callback": _progress_callback(progress, size)}
                with _opened(content) as file:
                    s3.upload_fileobj(file, bucket, key, ExtraArgs=encryption(kms_key), **counted)
                is_stored = size == s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
        if not is_stored:
            raise foreign_response("PutObject", "has stored other bytes than were sent")

    _about(uri, call)


def is_tag_of(content: bytes, answer: Mapping[str, Any]) -> bool:
    """Return True if S3's answer to an upload fits the content.

    The checksum decides, where S3 returns it; else the ETag, which is the MD5 of an object that is
    not encrypted with a KMS key. Source: API reference, Object, ETag.
    """
    if (checksum := answer.get("ChecksumSHA256")) is not None:
        return bool(checksum == sha256_of(content))
    tag = answer["ETag"].strip('"')
    is_digest = _MD5.fullmatch(tag) and "kms" not in str(answer.get("ServerSideEncryption"))
    return not is_digest or tag == hashlib.md5(content, usedforsecurity=False).hexdigest()


def sha256_of(content: bytes | Path) -> str:
    """Return the SHA-256 of an object's content as S3 returns it, in base64."""
    return base64.b64encode(bytes.fromhex(content_hash(content))).decode()


def _opened(content: bytes | Path) -> BinaryIO:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def copy(clients: Clients, source: str, uri: str, kms_key: str | None = None) -> str | None:
    """Copy an object inside S3; return its SHA-256 in base64, as computed by S3.

    Returns None where S3 refuses: the object does not exist, or we may not read or write it.
    """
    bucket, key = bucket_and_key(uri)
    from_bucket, from_key = bucket_and_key(source)

    def call() -> str | None:
        with clients.client("s3") as s3:
            answer = s3.copy_object(
                CopySource={"Bucket": from_bucket, "Key": from_key},
                Bucket=bucket,
                Key=key,
                ChecksumAlgorithm="SHA256",
                **encryption(kms_key),
            )
        checksum: str | None = answer["CopyObjectResult"].get("ChecksumSHA256")
        return checksum

    try:
        return retry_read(call)
    except Refused:
        return None


def download(clients: Clients, uri: str, path: Path, progress: Progress | None) -> None:
    """Copy one object into a file, which appears when it is whole."""
    bucket, key = bucket_and_key(uri)

    def call(partial: Path) -> int:
        with clients.client("s3") as s3:
            size = int(s3.head_object(Bucket=bucket, Key=key)["ContentLength"])
            counter = _progress_callback(progress, size, most=size)
            s3.download_file(bucket, key, str(partial), Callback=counter)
        if partial.stat().st_size != size:
            raise foreign_response("GetObject", f"is not the object of {size} bytes")
        return size

    with replacing(path) as draft:
        size = _about(uri, lambda: call(draft))
    if progress and size == 0:
        progress(0, 0)


def _about(uri: str, call: Callable[[], Result]) -> Result:
    """Return the result of a call, repeated after blips; errors of S3 do not name the object."""
    try:
        return retry_read(call)
    except (Refused, Unreachable) as error:
        error.add(f"  object: {uri}")
        raise


def encryption(kms_key: str | None) -> Mapping[str, Any]:
    """Return S3's arguments for a KMS key; none for the bucket's own default."""
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}


def _progress_callback(
    progress: Progress | None, size: int, most: float = math.inf
) -> Callable[[int], None]:
    """Return a callback for boto, which reports each piece from several threads.

    It raises Unreachable for more than `most` bytes.
    """
    lock, copied = threading.Lock(), 0

    def count(piece: int) -> None:
        nonlocal copied
        with lock:
            copied += piece
            if copied > most:
                raise foreign_response("GetObject", f"is not the object of {size} bytes")
            if progress:
                progress(copied, size)

    return count


class DefaultBucket:
    """A bucket by name, created once if it does not exist.

    owner: the account that must own it; None: any account. The usual name,
        sagemaker-REGION-ACCOUNT, can be guessed, so someone else could create that bucket to
        receive our code.
    """

    def __init__(self, clients: Clients, name: str, owner: str | None) -> None:
        self.name = name
        self._clients = clients
        self._owner = owner
        self._exists = False
        self._lock = threading.Lock()

    def ensure(self) -> None:
        """Create the bucket unless it exists; raise CloudError when another account owns it."""
        with self._lock:
            if not self._exists:
                try:
                    self._find_or_create()
                except Refused as error:
                    if error.code in _FOREIGN_CODES:
                        raise self._foreign_error(error) from error
                    raise
                self._exists = True

    def _foreign_error(self, error: Refused) -> CloudError:
        return CloudError(
            f"the bucket {self.name} belongs to another account, or you may not use it "
            f"({error.code})\n"
            "  fix: use a bucket of your own: set output_path and code_location, or "
            "AwsSession(default_bucket=...)",
            code=error.code,
            request_id=error.request_id,
        )

    def _find_or_create(self) -> None:
        expected = {"ExpectedBucketOwner": self._owner} if self._owner else {}
        try:
            with self._clients.client("s3") as s3:
                s3.head_bucket(Bucket=self.name, **expected)
        except Refused as error:
            if error.code not in NO_BUCKET:
                raise
            self._create()

    def _create(self) -> None:
        region = self._clients.region
        place = {} if region == _FIRST_REGION else {"LocationConstraint": region}
        options = {"CreateBucketConfiguration": place} if place else {}
        try:
            with self._clients.client("s3") as s3:
                s3.create_bucket(Bucket=self.name, **options)
        except Refused as error:
            if error.code != "BucketAlreadyOwnedByYou":  # created by another process meanwhile
                raise
        with self._clients.client("s3") as s3:
            s3.put_public_access_block(
                Bucket=self.name,
                PublicAccessBlockConfiguration={
                    "BlockPublicAcls": True,
                    "IgnorePublicAcls": True,
                    "BlockPublicPolicy": True,
                    "RestrictPublicBuckets": True,
                },
            )
