"""The two platforms that one suite is held against: this machine, and an AWS client over HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from containers import session_in

from launcher import AwsSession, Job, JobSpec, LocalSession
from launcher.client.endpoint import serve
from launcher.client.request import prepare
from launcher.client.sessions import PlatformSession, new_job_name, place
from launcher.client.submit import send

BUCKET = "conformance-data"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A session, the local session that does its work, and a way to put data where it reads."""

    session: PlatformSession
    worker: LocalSession
    put: Callable[[str, bytes], str]

    def start(self, script: str, folder: Path, name: str | None = None, **fields: Any) -> Job:
        """Submit a script as a job of its own; one host unless `fields` say otherwise."""
        source = folder / f"source-{time.monotonic_ns()}"
        source.mkdir()
        (source / "train.py").write_text(script)
        if "instance_groups" not in fields:
            fields = {"instance_type": "ml.c5.xlarge", "instance_count": 1, **fields}
        spec = JobSpec(
            entry_point="train.py",
            source_dir=str(source),
            image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1",
            role="LauncherLocalRole",
            **fields,
        )
        name = name or new_job_name(spec)
        send(prepare(spec, place(spec, self.session, name)), self.session)
        return Job(name, self.session)

    def run(self, script: str, folder: Path, **fields: Any) -> Job:
        return self.start(script, folder, **fields).wait()


@contextlib.contextmanager
def local_platform(folder: Path, isolation: str | None = None) -> Iterator[Platform]:
    session = session_in(folder, isolation, stop_grace_seconds=20.0)

    def put(key: str, content: bytes) -> str:
        path = folder / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"file://{path}"

    yield Platform(session=session, worker=session, put=put)


@contextlib.contextmanager
def aws_platform(folder: Path) -> Iterator[Platform]:
    """AwsSession, which knows nothing but a URL and keys."""
    root = folder / "endpoint"
    with serve(root) as endpoint:
        storage = endpoint.client("s3")
        storage.create_bucket(Bucket=BUCKET)

        def put(key: str, content: bytes) -> str:
            storage.put_object(Bucket=BUCKET, Key=key, Body=content)
            return f"s3://{BUCKET}/{key}"

        with pytest.MonkeyPatch.context() as patch:
            for name, value in endpoint.environment.items():
                patch.setenv(name, value)
            yield Platform(session=AwsSession(), worker=LocalSession(root), put=put)
