"""AWS as moto serves it over HTTP, and a service of quotas of our own: moto has no such list."""

import json
import os
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"


@pytest.fixture(scope="session")
def moto_address():
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
    yield boto3.client
    reset = urllib.request.Request(f"{moto_address}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=30).close()


@pytest.fixture
def quotas(aws, credentials):
    """Service Quotas with two pages; the list of (name, value) may be changed by a test."""
    listed = [("Total domains", 1.0), ("ml.c5.xlarge for training job usage", 4.0)]
    listed += [("ml.g5.xlarge for training job usage", 1.0)]
    listed += [("ml.g5.xlarge for endpoint usage", 50.0)]

    class Quotas(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["X-Amz-Target"].endswith(".ListServiceQuotas")
            assert asked["ServiceCode"] == "sagemaker"
            first = int(asked.get("NextToken", 0))
            answer = {
                "Quotas": [
                    {"QuotaName": name, "Value": value} for name, value in listed[first : first + 2]
                ]
            }
            if first + 2 < len(listed):
                answer["NextToken"] = str(first + 2)
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quotas) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        credentials.setenv(
            "AWS_ENDPOINT_URL_SERVICE_QUOTAS", f"http://127.0.0.1:{server.server_port}"
        )
        yield listed
        server.shutdown()
