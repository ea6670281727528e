"""AWS as moto serves it over HTTP, a machine that knows nothing of it, and others' clients."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from trust import TRUST

# A shell starts what is to run in the background deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

REGION = "eu-west-1"
_INSTALL_SECONDS = 1500


@pytest.fixture(scope="session")
def moto_address():
    from moto.server import ThreadedMotoServer  # takes a second, which few tests need

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """A machine without credentials, region or configuration."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # this machine may be an instance
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    return monkeypatch


@pytest.fixture
def credentials(offline):
    offline.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    offline.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    offline.setenv("AWS_DEFAULT_REGION", REGION)
    return offline


@pytest.fixture
def aws(credentials, moto_address):
    """An account; clients of it by name."""
    credentials.setenv("AWS_ENDPOINT_URL", moto_address)
    import boto3

    yield boto3.client
    reset = urllib.request.Request(f"{moto_address}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=30).close()


@pytest.fixture
def make_role(moto_address, aws):
    """Make a role that SageMaker may assume; its ARN."""

    def make(name, **fields):
        iam = aws("iam", endpoint_url=moto_address)
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST), **fields)
        return made["Role"]["Arn"]

    return make


@pytest.fixture(scope="session")
def programs_of(pytestconfig):
    """The folder of a package's programs: installed alone at first use, kept in pytest's cache."""

    def find(requirement):
        folder = pytestconfig.cache.mkdir("other-sdks") / requirement
        complete = folder / "complete"
        if not complete.exists():
            try:
                _install(requirement, folder)
            except subprocess.SubprocessError as error:
                said = (getattr(error, "stderr", None) or b"").decode()[-500:]
                pytest.skip(f"{requirement} cannot be installed here: {error}\n{said}")
            complete.touch()
        return folder / "bin"

    return find


def _install(requirement, folder):
    make = [sys.executable, "-m", "venv", folder]
    install = [folder / "bin" / "pip", "install", "-q", requirement]
    for command in (make, install):
        subprocess.run(command, timeout=_INSTALL_SECONDS, capture_output=True, check=True)
