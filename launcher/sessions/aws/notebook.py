"""What notebooks of SageMaker's SDK v2 call beside their estimators: a session and a role."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from launcher.errors import Problem, SpecError
from launcher.sessions.aws.session import AwsSession
from launcher.sessions.s3_uris import bucket_and_key

#: Files that `upload_data` stores at a time.
_UPLOADS = 10


class Session(AwsSession):
    """An AwsSession with the methods of SDK v2's `sagemaker.Session` that concern data."""

    def __init__(self, boto_session: Any = None, default_bucket: str | None = None) -> None:
        super().__init__(boto_session=boto_session, default_bucket=default_bucket)

    @property
    def boto_region_name(self) -> str:
        return self.region

    def default_bucket(self) -> str:
        """The name of the bucket sagemaker-REGION-ACCOUNT, or of the one that was given; made now.

        Raises CloudError when it is somebody else's.
        """
        self._default_bucket.ensure()
        return self._default_bucket.name

    def upload_data(
        self, path: str | Path, bucket: str | None = None, key_prefix: str = "data"
    ) -> str:
        """Store a file, or a folder with all below it; the URI of what was stored.

        Raises SpecError when there is nothing at `path`.
        """
        origin = Path(path)
        place = f"s3://{bucket or self.default_bucket()}/{key_prefix.strip('/')}".rstrip("/")
        root = origin if origin.is_dir() else origin.parent

        def store(file: Path) -> None:
            key = file.relative_to(root).as_posix()
            with self._clients.client("s3") as s3:
                s3.upload_file(str(file), *bucket_and_key(f"{place}/{key}"))

        with ThreadPoolExecutor(_UPLOADS) as pool:  # small files are a matter of latency
            for _ in pool.map(store, _files(origin)):
                pass
        return place if origin.is_dir() else f"{place}/{origin.name}"


def get_execution_role(sagemaker_session: AwsSession | None = None) -> str:
    """The ARN of the role that this notebook runs as; SpecError where that cannot be told."""
    return (sagemaker_session or Session()).role_arn(None)


def _files(origin: Path) -> Iterator[Path]:
    if not origin.exists():
        what = f"there is nothing at {origin}"
        raise SpecError([Problem(what=what, where="path", fix="give a file or a folder")])
    if origin.is_file():
        yield origin
    yield from (file for file in sorted(origin.rglob("*")) if file.is_file())
