"""An endpoint for the duration of a block, in its own process: for tests and notebooks."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.errors import PlatformError

_EXPORT = "export "
#: The variable on the last line that `launcher endpoint` prints when ready.
_LAST_VARIABLE = "AWS_DEFAULT_REGION"


@dataclass(frozen=True, kw_only=True)
class ServedEndpoint:
    """A running endpoint.

    environment: what an AWS client needs (AWS_ENDPOINT_URL, keys, region); process: the server.
    """

    environment: Mapping[str, str]
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return self.environment["AWS_ENDPOINT_URL"]

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        return int(self.url.rpartition(":")[2])

    def client(self, service: str, region: str | None = None, **arguments: object) -> Any:
        """Return boto3's client of a service; `arguments` go to boto3 too, such as config."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=region or self.environment["AWS_DEFAULT_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            **arguments,
        )


@contextmanager
def serve(
    root: str | Path,
    *,
    port: int = 0,
    rates: Mapping[str, float] | None = None,
    **local: str | bool,
) -> Iterator[ServedEndpoint]:
    """Serve a root folder until the block ends; jobs still running then continue.

    port: 0 for any free one; rates: requests per second by operation, which override AWS's own
    (float("inf") lifts one); local: options of the jobs, such as isolation="process", as those of
    `launcher endpoint`. The same root and port again give the same jobs, objects and key.
    Raises PlatformError when the server does not start.

    >>> with serve("/tmp/endpoint") as endpoint:
    ...     endpoint.client("sagemaker").list_training_jobs()
    """
    command = [sys.executable, "-m", "launcher", "endpoint", "--port", str(port)]
    command += ["--root", str(root)]
    for name, value in local.items():
        command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    for operation, rate in (rates or {}).items():
        command += ["--rate", f"{operation}={rate}"]
    with (
        tempfile.TemporaryFile("w+") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            yield ServedEndpoint(environment=_read_exports(process, stderr), process=process)
        finally:
            process.terminate()


def _read_exports(process: subprocess.Popen[str], stderr: Any) -> dict[str, str]:
    """Return the variables that a server prints once it is ready."""
    environment = {}
    assert process.stdout is not None, "it is a pipe"
    for line in process.stdout:
        name, _, value = line.strip().removeprefix(_EXPORT).partition("=")
        environment[name] = "".join(shlex.split(value))  # a shell's word
        if name == _LAST_VARIABLE:
            return environment
    stderr.seek(0)
    raise PlatformError(f"launcher endpoint did not start: {stderr.read().strip()}")
