"""Persistent S3: moto's in-memory objects are written through to the root.

Layout: <root>/s3/<bucket>/bucket.json and, for each object, <digest of its key>.json, which names
the file of its content, so that an object is replaced atomically. It is on disk before its
request is to_output. The newest version of an object is kept; a multipart upload is kept once
complete.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from moto.s3.models import FakeKey, s3_backends

from launcher.client.sessions import read_json, write_atomically, write_json

_MUTATING = frozenset({"PUT", "POST", "DELETE"})
#: The fields of moto's object that clients can see.
_FIELDS = (
    "checksum_algorithm",
    "checksum_value",
    "checksum_type",
    "checksum_parts",
    "encryption",
    "kms_key_id",
)


class Objects:
    """The buckets of moto's S3, in memory and below a folder."""

    def __init__(self, folder: Path, account: str) -> None:
        self._folder = folder
        self._s3 = s3_backends[account]["aws"]
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load into moto what an earlier server has stored."""
        for description in sorted(self._folder.glob("*/bucket.json")):
            self._load_bucket(description.parent)

    def save(self, method: str, path: str, body: bytes, *, is_copy: bool) -> None:
        """Write to disk what a successful request has changed.

        path: "/bucket/key" as it was sent; body: of a POST, which may name several keys; is_copy:
        True if the object was made from another one.
        """
        if method not in _MUTATING:
            return
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        with self._lock:
            if bucket not in self._s3.buckets:
                self._drop_bucket(bucket)
                return
            self._save_bucket(bucket)
            if is_copy:
                self._drop_checksum(bucket, key)
            for each in [key] if key else _keys_of(body):
                self._save_object(bucket, each)

    def has_bucket(self, bucket: str, region: str) -> bool:
        """Return True if the region has the bucket; its jobs cannot use other regions' buckets."""
        return bucket in self._s3.buckets and self._s3.buckets[bucket].region_name == region

    def has_objects(self, bucket: str, prefix: str, region: str) -> bool:
        """Return True if an object exists under the prefix; False also for a missing bucket."""
        return any(key.startswith(prefix) for key in self._keys(bucket, region))

    def _keys(self, bucket: str, region: str) -> Iterator[str]:
        if self.has_bucket(bucket, region):
            yield from list(self._s3.buckets[bucket].keys)

    # to the disk -------------------------------------------------------------------------------

    def _save_bucket(self, name: str) -> None:
        bucket, folder = self._s3.buckets[name], self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        description = {
            "region": bucket.region_name,
            "created": bucket.creation_date.isoformat(),
            "versioning": bucket.versioning_status,
            "tags": self._s3.tagger.get_tag_dict_for_resource(bucket.arn),
        }
        file = folder / "bucket.json"
        if not file.exists() or read_json(file) != description:
            write_json(file, description)

    def _drop_bucket(self, name: str) -> None:
        """Delete a bucket's folder; a request may name no bucket, or "..", so others are kept."""
        if (self._folder / name / "bucket.json").is_file():
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _save_object(self, bucket: str, key: str) -> None:
        file = self._file(bucket, key)
        old = file.with_name(read_json(file)["data"]) if file.exists() else None
        stored = self._s3.get_object(bucket, key)
        if stored is None:
            file.unlink(missing_ok=True)
        else:
            new = file.with_name(f"{file.stem}-{secrets.token_hex(4)}.data")
            write_atomically(new, stored.value)
            write_json(file, self._described(stored) | {"data": new.name})
        if old is not None:
            old.unlink(missing_ok=True)

    def _drop_checksum(self, bucket: str, key: str) -> None:
        """Drop the checksum of a copy.

        To a copy, moto gives the checksum of its source's parts, which clients refuse.
        """
        if copied := self._s3.get_object(bucket, key):
            copied.checksum_algorithm = copied.checksum_value = None

    def _described(self, stored: Any) -> dict[str, Any]:
        return {
            "key": stored.name,
            "etag": stored.etag.strip('"'),
            "modified": stored.last_modified.isoformat(),
            "storage": stored.storage_class,
            "metadata": dict(stored.metadata),
            "tags": self._s3.tagger.get_tag_dict_for_resource(stored.arn),
            **{field: getattr(stored, field) for field in _FIELDS},
        }

    def _file(self, bucket: str, key: str) -> Path:
        """Return an object's file, named by a digest: keys may be long and have any characters."""
        return self._folder / bucket / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    # from the disk -----------------------------------------------------------------------------

    def _load_bucket(self, folder: Path) -> None:
        description = read_json(folder / "bucket.json")
        bucket = self._s3.create_bucket(folder.name, description["region"])
        bucket.creation_date = datetime.fromisoformat(description["created"])
        bucket.versioning_status = description["versioning"]
        self._s3.put_bucket_tagging(folder.name, description["tags"])
        contents = set(folder.glob("*.data"))
        for file in set(folder.glob("*.json")) - {folder / "bucket.json"}:
            described = read_json(file)
            content = folder / described["data"]
            self._load_object(folder.name, described, content.read_bytes())
            contents.discard(content)
        for unnamed in contents:  # left by a server that was killed while writing
            unnamed.unlink()

    def _load_object(self, bucket: str, description: dict[str, Any], content: bytes) -> None:
        stored: FakeKey = self._s3.put_object(
            bucket,
            description["key"],
            content,
            storage=description["storage"],
            etag=description["etag"],
            disable_notification=True,
        )
        stored.last_modified = datetime.fromisoformat(description["modified"])
        stored.set_metadata(description["metadata"], replace=True)
        for field in _FIELDS:
            setattr(stored, field, description[field])
        if description["tags"]:
            self._s3.put_object_tagging(stored, description["tags"])


def _keys_of(body: bytes) -> list[str]:
    """Return the keys that a DeleteObjects request names."""
    try:
        document = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return []
    return [each.text or "" for each in document.iter() if each.tag.rpartition("}")[2] == "Key"]
