"""AWS as moto serves it over HTTP, and a machine that knows nothing of AWS."""

import os
import urllib.request

import pytest

REGION = "eu-west-1"


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
