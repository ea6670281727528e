"""Connections that are held open, keys that are lent, and names that would control a terminal."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from customer import Customer
from test_endpoint_gate import BODY, signed
from waiting import wait_until

from launcher.client.endpoint import (
    Authenticator,
    BoundedHandler,
    BoundedServer,
    Secret,
    bounded_server,
)

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server of this process that waits half a second and has four connections at most."""
    monkeypatch.setattr(bounded_server, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(bounded_server, "MOST_CONNECTIONS", 4)

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    server = BoundedServer("127.0.0.1", 0, application, handler=BoundedHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def connect(server: BoundedServer) -> socket.socket:
    return socket.create_connection(server.server_address, timeout=60)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST / HT",
        HEAD,
        HEAD + b"Content-Length: 9\r\n\r\n",
        HEAD + b"Content-Length: 9\r\n\r\nhalf",
    ],
    ids=["nothing", "half a line", "half a head", "no body", "half a body"],
)
def test_a_half_open_connection_is_closed(impatient: BoundedServer, sent: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(sent)
        assert b"200 OK" not in b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_head_that_comes_byte_by_byte_is_closed(impatient: BoundedServer) -> None:
    with connect(impatient) as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.1)
        began = time.monotonic()
        while not _is_closed(connection):
            connection.sendall(b"X")
            assert time.monotonic() - began < 60, "the bytes keep it open"


def test_a_body_that_comes_byte_by_byte_after_its_answer_is_not_read(
    impatient: BoundedServer,
) -> None:
    impatient.app = lambda _, start: start("403 Forbidden", [("Content-Length", "0")]) and [b""]
    with connect(impatient) as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(0.1)
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\nX")
        began = time.monotonic()
        while not _is_closed(connection):
            connection.sendall(b"X")
            assert time.monotonic() - began < 60, "the bytes keep it open"


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection, after its timeout."""
    with contextlib.suppress(TimeoutError):
        return connection.recv(1) == b""
    return False


def test_a_body_may_take_longer_than_a_silence(impatient: BoundedServer) -> None:
    body, began = b"", time.monotonic()
    with connect(impatient) as connection:
        connection.sendall(HEAD + b"Content-Length: 8\r\n\r\n")
        for _ in range(8):
            connection.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                connection.settimeout(0.1)
                body += connection.recv(1)
        connection.settimeout(60)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert time.monotonic() - began > bounded_server.PATIENCE_SECONDS
    assert (body + answer).endswith(b"xxxxxxxx")


def _answer(server: BoundedServer, size: int) -> None:
    """Have a server answer so many bytes: a client that has to send them first may be too slow."""
    head = [("Content-Length", str(size))]
    server.app = lambda _, start: start("200 OK", head) and [bytes(size)]


def test_a_response_that_nobody_reads_ends(impatient: BoundedServer) -> None:
    before = set(threading.enumerate())
    _answer(impatient, 32 << 20)
    with connect(impatient) as connection:
        connection.sendall(HEAD + b"\r\n")
        (answering,) = wait_until(
            lambda: {each for each in threading.enumerate() if each.is_alive()} - before
        )
        answering.join(60)
        assert not answering.is_alive()


def test_a_large_response_may_take_longer_than_the_patience(impatient: BoundedServer) -> None:
    size = 32 << 20
    _answer(impatient, size)
    with connect(impatient) as connection:
        connection.sendall(HEAD + b"\r\n")
        began, read = time.monotonic(), 0
        while piece := connection.recv(1 << 16):
            read += len(piece)
            if read < 30 << 16:
                _read_nothing_for(connection, 0.03)
        assert time.monotonic() - began > bounded_server.PATIENCE_SECONDS
    assert read > size


def _read_nothing_for(connection: socket.socket, seconds: float) -> None:
    """Let the writer wait: the pace of a slow reader, not a wait for something."""
    threading.Event().wait(seconds)


@pytest.mark.long
def test_connections_have_a_bounded_number_of_threads(impatient: BoundedServer) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        most = 0
        held = [stack.enter_context(connect(impatient)) for _ in range(40)]
        with connect(impatient) as last:
            last.sendall(HEAD + b"Content-Length: 1\r\n\r\nx")
            last.settimeout(0.01)
            answer = b""
            while b"200 OK" not in answer:
                most = max(most, threading.active_count() - before)
                with contextlib.suppress(TimeoutError):
                    piece = last.recv(1 << 16)
                    assert piece, "the last of 41 connections is answered too"
                    answer += piece
        assert len(held) == 40
        assert 1 <= most <= 4


@pytest.mark.long
def test_the_endpoint_closes_silent_connections_and_answers_others(customer: Customer) -> None:
    with contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", customer.endpoint.port)))
            for _ in range(600)
        ]
        status = Path(f"/proc/{customer.endpoint.process.pid}/status").read_text()
        threads = int(status.partition("Threads:")[2].split()[0])
        assert threads <= bounded_server.MOST_CONNECTIONS + 16
        connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=120)
        with contextlib.closing(connection):
            connection.request("POST", "/", BODY, signed(customer))
            assert connection.getresponse().status == 200
        for each in held:
            each.settimeout(120)
            assert each.recv(1) == b""


@pytest.fixture
def lent(customer: Customer) -> dict[str, str]:
    """The keys of a role that was assumed, as boto3 takes them."""
    role = customer.endpoint.client("iam").get_role(RoleName="LauncherLocalRole")["Role"]["Arn"]
    keys = customer.endpoint.client("sts").assume_role(RoleArn=role, RoleSessionName="test")[
        "Credentials"
    ]
    return {
        "aws_access_key_id": keys["AccessKeyId"],
        "aws_secret_access_key": keys["SecretAccessKey"],
        "aws_session_token": keys["SessionToken"],
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("service", "call", "code"),
    [
        ("sagemaker", "list_training_jobs", "UnrecognizedClientException"),
        ("s3", "list_buckets", "InvalidAccessKeyId"),
        ("sts", "get_caller_identity", "InvalidClientTokenId"),
    ],
)
@pytest.mark.parametrize("token", [None, "another's"])
def test_a_lent_key_needs_its_token(
    customer: Customer, lent: dict[str, Any], service: str, call: str, code: str, token: str | None
) -> None:
    changed = boto3.client(
        service,
        endpoint_url=customer.endpoint.url,
        region_name="us-east-1",
        **{**lent, "aws_session_token": token},
    )
    with pytest.raises(ClientError) as caught:
        getattr(changed, call)()
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.long
def test_a_presigned_url_has_the_token_of_a_lent_key(
    customer: Customer, lent: dict[str, Any]
) -> None:
    customer.s3.create_bucket(Bucket="lent")
    customer.s3.put_object(Bucket="lent", Key="a", Body=b"content")
    for token, status in ((lent["aws_session_token"], 200), ("another's", 403)):
        s3 = boto3.client(
            "s3",
            endpoint_url=customer.endpoint.url,
            region_name="us-east-1",
            config=Config(signature_version="s3v4"),
            **{**lent, "aws_session_token": token},
        )
        url = s3.generate_presigned_url("get_object", Params={"Bucket": "lent", "Key": "a"})
        connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", url.removeprefix(customer.endpoint.url))
            assert connection.getresponse().status == status


def test_a_lent_key_ends(customer: Customer) -> None:
    """With the authenticator itself: a role is assumed for 15 minutes at least."""
    from test_endpoint_gate import signed as sign
    from werkzeug.test import EnvironBuilder

    from launcher.client.endpoint import ApiError, credential_of

    headers = sign(customer)
    builder = EnvironBuilder("/", customer.endpoint.url, method="POST", data=BODY, headers=headers)
    request = builder.get_request()
    request.environ["REQUEST_URI"] = "/"
    secret = customer.endpoint.environment["AWS_SECRET_ACCESS_KEY"]
    now = time.time()
    for valid_until, is_let_in in ((now + 60, True), (now - 60, False)):
        authenticator = Authenticator(
            customer.endpoint.port,
            lambda _, end=valid_until: Secret(text=secret, session_token="", valid_until=end),
        )
        if is_let_in:
            authenticator.authenticate(request, credential_of(request))
        else:
            with pytest.raises(ApiError, match="ExpiredTokenException"):
                authenticator.authenticate(request, credential_of(request))


@pytest.mark.parametrize("key", ["a\x1b[2Jb", "bell\x07", "back\u202eward", "nul\x01"])
def test_errors_in_xml_show_control_characters(customer: Customer, key: str) -> None:
    customer.s3.create_bucket(Bucket="controls")
    with pytest.raises(ClientError) as caught:
        customer.s3.get_object(Bucket="controls", Key=key)
    assert caught.value.response["Error"]["Code"] == "NoSuchKey"
    shown = caught.value.response["Error"].get("Key", "")
    assert shown.isprintable()
    assert "\\" in shown


@pytest.mark.parametrize("service", ["sts", "iam", "ec2", "s3"])
def test_refusals_in_xml_show_control_characters(customer: Customer, service: str) -> None:
    """What is refused before it reaches moto: here for a time that is no time."""
    headers = signed(customer)
    headers["Authorization"] = headers["Authorization"].replace("/sagemaker/", f"/{service}/")
    headers["X-Amz-Date"] = "\x9b2J\x85time"
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/", BODY, headers)
        answer = connection.getresponse()
        assert answer.status == 403
        text = answer.read().decode()
    assert "\\x9b2J\\x85time" in text
    assert "\x9b" not in text


@pytest.mark.parametrize("key", ["reset", "data.json", "seed?a=42"])
@pytest.mark.parametrize("method", ["get_object", "put_object"])
def test_a_key_opens_no_route_of_moto_s_own(customer: Customer, method: str, key: str) -> None:
    """A bucket may have the name of such a route, and is a bucket."""
    customer.s3.create_bucket(Bucket="moto-api")
    customer.s3.put_object(Bucket="moto-api", Key=key, Body=b"an object")
    s3 = customer.endpoint.client("s3", config=Config(signature_version="s3v4"))
    url = s3.generate_presigned_url(method, Params={"Bucket": "moto-api", "Key": key})
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=60)
    with contextlib.closing(connection):
        verb, body = ("GET", None) if method == "get_object" else ("PUT", b"an object")
        connection.request(verb, url.removeprefix(customer.endpoint.url), body)
        assert connection.getresponse().status == 200
    assert customer.s3.get_object(Bucket="moto-api", Key=key)["Body"].read() == b"an object"


@pytest.mark.parametrize(
    "path", ["/moto-api/reset", "/latest/meta-data/iam/", "/lambda_us-east-1/x", "/favicon.ico"]
)
@pytest.mark.parametrize("service", ["iam", "sts", "s3"])
def test_a_signed_request_reaches_its_service_alone(
    customer: Customer, path: str, service: str
) -> None:
    customer.s3.create_bucket(Bucket="kept")
    environment = customer.endpoint.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    asked = AWSRequest("POST", f"{customer.endpoint.url}{path}", data=b"")
    (S3SigV4Auth if service == "s3" else SigV4Auth)(keys, service, "us-east-1").add_auth(asked)
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", path, b"", dict(asked.headers.items()))
        answer = connection.getresponse()
        assert answer.status >= 400, answer.read()
        assert b"moto" not in answer.read().lower().replace(b"moto-api", b"")
    assert "kept" in [each["Name"] for each in customer.s3.list_buckets()["Buckets"]]
