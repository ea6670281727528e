"""The endpoint's process: one server on the loopback address, with its state in one root folder."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timezone
from functools import partial
from pathlib import Path
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.server import create_backend_app
from moto.sts.models import sts_backends

from launcher.client.endpoint.application import Application, MotoServices
from launcher.client.endpoint.authenticator import LOOPBACK, Authenticator, Secret
from launcher.client.endpoint.bounded_server import BoundedHandler, BoundedServer
from launcher.client.endpoint.cloudwatch_operations import CloudWatchMetrics, Logs
from launcher.client.endpoint.job_operations import Jobs
from launcher.client.endpoint.operations import Operations
from launcher.client.endpoint.rate_limiter import RateLimiter, parse_rates
from launcher.client.endpoint.s3_gateway import Objects
from launcher.client.sessions import LocalSession, read_json, translate_write_errors, write_json
from launcher.errors import PlatformError

__all__ = ["Endpoint", "Setup", "open_endpoint", "parse_access_key", "parse_rates"]

ROLE = "LauncherLocalRole"
DEFAULT_REGION = "us-east-1"
#: Connections that may wait for a thread; clients submit hundreds of jobs at once.
_BACKLOG = 1024


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Settings of an endpoint.

    root: where jobs, objects and the access key are stored; port: 0 for any free one; rates:
    requests per second by operation; local: arguments of the LocalSession that runs the jobs.
    """

    root: Path
    port: int
    rates: Mapping[str, float]
    access_key: AccessKey | None = None
    local: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A server that is ready; `serve` answers its requests."""

    server: BoundedServer
    access_key: AccessKey
    role_arn: str

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return f"http://{LOOPBACK}:{self.server.server_address[1]}"

    def serve(self) -> None:
        """Answer until the process is interrupted, or terminated by SIGTERM."""
        # A handler that raises would do so anywhere, as within a thread's start, where it is lost.
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as of a shell's background jobs
                signal.signal(number, lambda *_: self.server.stop())
        self.server.serve_forever()

    def environment(self) -> dict[str, str]:
        """Return the variables that direct any AWS client to the endpoint."""
        return client_environment(self.url, self.access_key)


def client_environment(url: str, key: AccessKey, region: str = DEFAULT_REGION) -> dict[str, str]:
    """Return the variables that direct any AWS client to an endpoint."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": key.id,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_DEFAULT_REGION": region,
    }


@contextmanager
def open_endpoint(setup: Setup) -> Iterator[Endpoint]:
    """Open an endpoint on a root folder that no other uses.

    Raises PlatformError if that fails, and for invalid arguments of its sessions.
    """
    with _lock_root(setup.root):
        server = _bind_server(setup.port)
        try:
            key = load_access_key(setup.root, setup.access_key)
            _session(setup, setup.port, key, DEFAULT_REGION)  # refuses what every job would
            server.app = _application(setup, server.server_address[1], key)
            role = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].create_role(
                ROLE, _TRUST, "/", None, "Of local training jobs", [], 3600
            )
            _assign_role(role.arn, key)
            yield Endpoint(server=server, access_key=key, role_arn=role.arn)
        finally:
            server.server_close()


def _application(setup: Setup, port: int, key: AccessKey) -> Application:
    objects = Objects(setup.root / "s3", DEFAULT_ACCOUNT_ID)
    objects.load()
    jobs = Jobs(setup.root, DEFAULT_ACCOUNT_ID, partial(_session, setup, port, key))
    logs = Logs(setup.root, jobs.registry, DEFAULT_ACCOUNT_ID)
    metrics = CloudWatchMetrics(setup.root, jobs.registry, DEFAULT_ACCOUNT_ID)
    return Application(
        authenticator=Authenticator(port, partial(_secret, key)),
        rate_limiter=RateLimiter(setup.rates),
        operations=Operations(jobs, objects, logs, metrics),
        logs=logs,
        metrics=metrics,
        objects=objects,
        moto=MotoServices(create_backend_app),
    )


def _session(setup: Setup, port: int, key: AccessKey, region: str) -> LocalSession:
    """Return the session that runs a region's jobs, and reads and stores their objects here."""
    variables = client_environment(f"http://{LOOPBACK}:{port}", key, region)
    return LocalSession(
        setup.root,
        **setup.local,
        region=region,
        account=DEFAULT_ACCOUNT_ID,
        platform_environment=variables,
    )


def _assign_role(role_arn: str, key: AccessKey) -> None:
    """Let the key's holder assume the role, as in a notebook on AWS, so jobs need not name one."""
    assumed = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].assume_role(
        DEFAULT_REGION, "launcher-endpoint", role_arn, None, 3600, None
    )
    assumed.access_key_id, assumed.secret_access_key = key.id, key.secret


def _secret(own: AccessKey, key_id: str) -> Secret | None:
    """Return the secret of our own key, or of a role that was assumed with it."""
    if key_id == own.id:
        return Secret(text=own.secret)
    role = sts_backends[DEFAULT_ACCOUNT_ID]["aws"].get_assumed_role_from_access_key(key_id)
    if role is None:
        return None
    return Secret(
        text=role.secret_access_key,
        session_token=role.session_token,
        valid_until=role.expiration.replace(tzinfo=timezone.utc).timestamp(),
    )


def _bind_server(port: int) -> BoundedServer:
    """Bind a server without its application, on our own socket: werkzeug exits on an error."""
    try:
        listener = socket.create_server((LOOPBACK, port), backlog=_BACKLOG)
    except OSError as error:
        raise PlatformError(
            f"cannot listen on port {port} of {LOOPBACK}: {error.strerror}: stop the program that "
            "uses it, or choose another --port"
        ) from error
    with listener:
        return BoundedServer(
            LOOPBACK, port, lambda *_: [], handler=BoundedHandler, fd=listener.fileno()
        )


@contextmanager
def _lock_root(root: Path) -> Iterator[None]:
    """Lock the root for the block: two endpoints would not see each other's objects."""
    with translate_write_errors(root):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (root / "endpoint.lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PlatformError(
                f"another endpoint uses {root}: use that one, stop it, or choose another --root"
            ) from error
        os.set_inheritable(file.fileno(), False)
        yield


_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)


@dataclass(frozen=True, kw_only=True)
class AccessKey:
    """An access key.

    id: travels with every request; secret: signs it, and is omitted from repr.
    """

    id: str
    secret: str = field(repr=False)


def new_access_key() -> AccessKey:
    """Return a random key of AWS's form; "LOCAL" distinguishes it from a real one."""
    return AccessKey(
        id="AKIALOCAL" + secrets.token_hex(6).upper()[:11], secret=secrets.token_hex(20)
    )


def parse_access_key(text: str) -> AccessKey:
    """Parse a user's key, given as ID:SECRET; raise PlatformError for another form."""
    key_id, _, secret = text.partition(":")
    if not key_id.isalnum() or len(key_id) < 16 or len(secret) < 16:
        raise PlatformError(
            "an access key has the form ID:SECRET, an id of at least 16 letters and digits, and a "
            "secret of at least 16 characters"
        )
    return AccessKey(id=key_id, secret=secret)


def load_access_key(root: Path, given: AccessKey | None = None) -> AccessKey:
    """Return the given key, else the root's, else a new one; store it for the next start."""
    file = root / "access-key.json"
    if given is None and file.exists():
        return AccessKey(**read_json(file))
    key = given or new_access_key()
    with translate_write_errors(root):
        write_json(file, asdict(key))  # which its owner alone may read
    return key
