"""The default bucket, created when the first object is stored and not before."""

from __future__ import annotations

import threading

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.error_hints import BUCKET_DENIED, NO_BUCKET
from launcher.errors import CloudError, Refused

_FOREIGN_CODES = (*BUCKET_DENIED, "BucketAlreadyExists")
#: The one region that create_bucket does not accept as a location constraint.
_FIRST_REGION = "us-east-1"


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
