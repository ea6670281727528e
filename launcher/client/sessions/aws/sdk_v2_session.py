"""The session and role functions that notebooks of SageMaker's SDK v2 call beside estimators."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.aws.sdk_v2_calls import SdkV2Calls
from launcher.client.sessions.given_session import aws_session, is_local_mode, own_session
from launcher.client.sessions.s3_uris import bucket_and_key
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    import boto3

#: Files that `upload_data` stores in parallel.
_UPLOADS = 10


class Session(SdkV2Calls):
    """An AwsSession with the data methods of SDK v2's `sagemaker.Session`."""

    def __init__(
        self,
        boto_session: boto3.Session | None = None,
        default_bucket: str | None = None,
        default_bucket_prefix: str | None = None,
    ) -> None:
        super().__init__(
            boto_session=boto_session,
            default_bucket=default_bucket,
            default_bucket_prefix=default_bucket_prefix,
        )

    @property
    def boto_region_name(self) -> str:
        """The AWS region."""
        return self.region

    def default_bucket(self) -> str:
        """Create the default bucket if needed, and return its name.

        It is the given bucket, or sagemaker-REGION-ACCOUNT. Raises CloudError when another account
        owns it.
        """
        self._default_bucket.ensure()
        return self._default_bucket.name

    def upload_data(
        self, path: str | Path, bucket: str | None = None, key_prefix: str = "data"
    ) -> str:
        """Store a file, or a folder with everything below it; return the URI of what was stored.

        In the default bucket, its prefix comes before `key_prefix`.

        Raises SpecError when `path` does not exist.
        """
        origin = Path(path)
        if bucket is None:
            self.default_bucket()  # creates it
        home = self.default_location() if bucket is None else f"s3://{bucket}"
        place = f"{home}/{key_prefix.strip('/')}".rstrip("/")
        root = origin if origin.is_dir() else origin.parent

        def store(file: Path) -> None:
            key = file.relative_to(root).as_posix()
            with self._clients.client("s3") as s3:
                s3.upload_file(str(file), *bucket_and_key(f"{place}/{key}"))

        with ThreadPoolExecutor(_UPLOADS) as pool:  # for small files, latency dominates
            for _ in pool.map(store, _files(origin)):
                pass
        return place if origin.is_dir() else f"{place}/{origin.name}"


def get_execution_role(sagemaker_session: object = None) -> str:
    """Return the ARN of the role that this notebook runs as; raise SpecError if it is unknown.

    sagemaker_session: one of ours, or a Session of the sagemaker package; ours by default.
    """
    session = own_session(sagemaker_session, local=is_local_mode(sagemaker_session))
    return (session or aws_session(sagemaker_session)).role_arn(None)


def _files(origin: Path) -> Iterator[Path]:
    if not origin.exists():
        what = f"there is nothing at {origin}"
        raise SpecError([Problem(what=what, where="path", fix="give a file or a folder")])
    if origin.is_file():
        yield origin
    yield from (file for file in sorted(origin.rglob("*")) if file.is_file())
