"""The session and role functions that notebooks of SageMaker's SDK v2 call beside estimators."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.client.sessions.aws import caller_identity
from launcher.client.sessions.aws.aws_session import AwsSession
from launcher.client.sessions.aws.call_limits import listed_objects
from launcher.client.sessions.registry import aws_session, is_local_mode, own_session
from launcher.client.sessions.s3_uris import bucket_and_key, clashing
from launcher.errors import LauncherError, Problem, SpecError

if TYPE_CHECKING:
    import boto3

    from launcher.shared import TrainingJobDescription

#: Files that `upload_data` stores in parallel.
_UPLOADS = 10
#: Seconds between two counts of what is stored.
_COUNT_SECONDS = 2.0


class Session(AwsSession):
    """An AwsSession with SDK v2's names for the account, its jobs, and objects and data in S3."""

    #: SDK v2's mark of its LocalSession, which this is not.
    local_mode = False
    #: SDK v2's prefix of all that it stores in the default bucket.
    default_bucket_prefix: str | None = None

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
    def boto_session(self) -> Any:
        """The boto3 session of all calls."""
        return self._clients.boto_session

    @property
    def sagemaker_client(self) -> Any:
        """A boto3 client of SageMaker."""
        return self.boto_session.client("sagemaker", region_name=self.region)

    @property
    def s3_client(self) -> Any:
        """A boto3 client of S3."""
        return self.boto_session.client("s3", region_name=self.region)

    def account_id(self) -> str:
        """Return the AWS account's 12 digits."""
        return self.account

    def get_caller_identity_arn(self) -> str:
        """Return the ARN of the role or user that this session calls as."""
        return caller_identity.caller_arn(self._clients, self._notify)

    def expand_role(self, role: str) -> str:
        """Return the ARN of a role that is given by name or ARN."""
        return self.role_arn(role)

    def describe_training_job(
        self,
        job_name: str | None = None,
        *,
        TrainingJobName: str = "",  # noqa: N803 (AWS)
    ) -> TrainingJobDescription:
        """Return the description of a job; SDK v2 gives its name by position."""
        return super().describe_training_job(TrainingJobName=job_name or TrainingJobName)

    def stop_training_job(
        self,
        job_name: str | None = None,
        *,
        TrainingJobName: str = "",  # noqa: N803 (AWS)
    ) -> None:
        """Ask a job to stop; SDK v2 gives its name by position."""
        super().stop_training_job(TrainingJobName=job_name or TrainingJobName)

    def list_s3_files(self, bucket: str, key_prefix: str) -> list[str]:
        """Return the keys below a prefix, in S3's order."""
        with self._clients.client("s3") as s3:
            return [str(each["Key"]) for each in listed_objects(s3, bucket, key_prefix)]

    def read_s3_file(self, bucket: str, key_prefix: str) -> str:
        """Return the text of an object."""
        with self._clients.client("s3") as s3:
            content: bytes = s3.get_object(Bucket=bucket, Key=key_prefix)["Body"].read()
        return content.decode("utf-8")

    def upload_string_as_file_body(
        self, body: str, bucket: str, key: str, kms_key: str | None = None
    ) -> str:
        """Store a text as an object; return its URI."""
        uri = f"s3://{bucket}/{key}"
        self.upload(body.encode("utf-8"), uri, kms_key=kms_key)
        return uri

    def download_data(self, path: str | Path, bucket: str, key_prefix: str = "") -> list[str]:
        """Copy an object, or everything below a prefix, into a folder; return the files.

        Raises LauncherError, before anything is copied, for keys that no folder can hold.
        """
        files = {
            key: Path(path) / _below(key, key_prefix)
            for key in self.list_s3_files(bucket, key_prefix)
            if not key.endswith("/")  # consoles store an empty object for a folder
        }
        if clash := clashing(files):
            raise LauncherError(
                f"the objects {clash[0]!r} and {clash[1]!r} cannot be files of one folder, as they "
                "have the same file name, or one is a file where the other needs a folder: rename "
                "one of them, or copy each with a key_prefix of its own"
            )
        for key, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            self.download(f"s3://{bucket}/{key}", file)
        return [str(file) for file in files.values()]

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

        files = [*_files(origin)]
        due = time.monotonic() + _COUNT_SECONDS
        with ThreadPoolExecutor(_UPLOADS) as pool:  # for small files, latency dominates
            for done, _ in enumerate(pool.map(store, files), start=1):
                if time.monotonic() > due or (done == len(files) > _UPLOADS):
                    due = time.monotonic() + _COUNT_SECONDS
                    self._notify(f"{done:,} of {len(files):,} files are stored in {place}")
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


def _below(key: str, prefix: str) -> Path:
    """Return where an object goes: its key without the prefix's folders.

    Raises LauncherError for a key that would leave the folder.
    """
    folder = prefix.rstrip("/") + "/"
    if not prefix or not key.startswith(folder):  # the object itself, or one of a similar name
        folder = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
    below = Path(key[len(folder) :].lstrip("/"))
    if ".." in below.parts:
        raise LauncherError(f"the object {key!r} cannot be copied: its key leaves the folder")
    return below
