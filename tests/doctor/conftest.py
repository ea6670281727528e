"""A service of quotas of our own, which moto lacks, and patience with an AWS that answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waiting import PATIENCE

from launcher.client.doctor import aws_connection, cloud_checks


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


@pytest.fixture(autouse=True)
def patience(request, monkeypatch):
    """The seconds that a busy machine needs, for answers of an AWS that does answer."""
    if "aws" in request.fixturenames:
        monkeypatch.setattr(aws_connection, "_SECONDS", PATIENCE)
        monkeypatch.setattr(cloud_checks, "_FIRST_CONTACT_SECONDS", PATIENCE)
