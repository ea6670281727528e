"""A call ends in time and in memory, whatever answers it: byte by byte, or without an end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import boto3
import pytest

from launcher import AwsSession
from launcher.client.catalogue import open_price_file, price_download
from launcher.client.doctor import Connection
from launcher.client.sessions import RetryPolicy
from launcher.client.sessions.aws import call_limits, caller_identity, clients, transient_errors
from launcher.errors import CloudError, Unreachable

#: The bytes of a minute, for what is limited to a second; loading boto takes none of them.
PATIENCE = 1200
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the address of a server that answers each connection so, in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(1 << 16)
            answer(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@dataclass
class Drip:
    """An answer that never ends: its head, and then a byte every 50 ms; `sent`: how many."""

    head: bytes
    sent: int = 0

    def __call__(self, connection: socket.socket) -> None:
        connection.sendall(self.head)
        while True:
            connection.sendall(b"a")
            self.sent += 1
            time.sleep(0.05)  # the fault itself


def flood(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"a" * (1 << 16))


def continues_and_ends(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 100 Continue\r\n")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch, credentials: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    once = RetryPolicy(seconds=0)
    monkeypatch.setattr(call_limits, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(call_limits, "SLOWEST", 1 << 20)
    monkeypatch.setattr(transient_errors, "READ_POLICY", once)
    monkeypatch.setattr(caller_identity, "_RETRY_POLICY", once)
    monkeypatch.setattr(clients, "_ATTEMPTS", {})
    return credentials


#: What comes before the bytes.
DRIPS = {"head": HEAD, "body": HEAD + b"Content-Length: 9999\r\n\r\n"}
CALLS = {
    "account": lambda session, _: session.account,
    "describe": lambda session, _: session.describe_training_job(TrainingJobName="rings"),
    "logs": lambda session, _: session.log_streams("rings"),
    "upload": lambda session, _: session.upload(b"content", "s3://bucket/key"),
    "download": lambda session, folder: session.download("s3://bucket/key", folder / "file"),
}


@pytest.mark.parametrize("part", DRIPS)
@pytest.mark.parametrize("call", CALLS)
def test_a_byte_now_and_then_holds_no_call(hurried, tmp_path, call, part):
    dripping = Drip(DRIPS[part])
    with server(dripping) as address:
        hurried.setenv("AWS_ENDPOINT_URL", address)
        session = AwsSession(boto_session=boto3.Session("AKIA", "secret", region_name="eu-west-1"))
        with pytest.raises(CloudError):
            CALLS[call](session, tmp_path)
        assert dripping.sent < PATIENCE


def test_an_object_that_is_too_slow_is_given_up(hurried, tmp_path):
    endless = Drip(HEAD + b'ETag: "a"\r\nContent-Length: 100000\r\n\r\n')
    with server(endless) as address:
        hurried.setenv("AWS_ENDPOINT_URL", address)
        session = AwsSession(boto_session=boto3.Session("AKIA", "secret", region_name="eu-west-1"))
        with pytest.raises(Unreachable, match="s3://bucket/key"):
            session.download("s3://bucket/key", tmp_path / "file")
        assert endless.sent < PATIENCE
    assert list(tmp_path.iterdir()) == []


def test_a_connection_that_ends_after_100_continue_ends_an_upload(hurried):
    with server(continues_and_ends) as address:
        hurried.setenv("AWS_ENDPOINT_URL", address)
        session = AwsSession(boto_session=boto3.Session("AKIA", "secret", region_name="eu-west-1"))
        with pytest.raises(Unreachable):
            session.upload(b"content", "s3://bucket/key")


def test_an_answer_without_an_end_is_not_kept(hurried):
    with server(flood) as address:
        hurried.setenv("AWS_ENDPOINT_URL", address)
        hurried.setattr(call_limits, "CALL_SECONDS", 60.0)
        session = AwsSession(boto_session=boto3.Session("AKIA", "secret", region_name="eu-west-1"))
        with pytest.raises(Unreachable, match="an answer of more than 32 MiB"):
            print(session.account)


def test_the_clients_of_the_checks_are_limited_too(hurried):
    with server(Drip(DRIPS["body"])) as address:
        hurried.setenv("AWS_ENDPOINT_URL", address)
        client = Connection(use_instance_role=False).client("sts")
        with pytest.raises(Exception, match="Read timeout"):
            client.get_caller_identity()


@pytest.mark.parametrize("part", DRIPS)
def test_prices_that_are_too_slow_are_given_up(monkeypatch, part):
    monkeypatch.setattr(price_download, "_SILENCE_SECONDS", 1)
    monkeypatch.setattr(price_download, "SLOWEST", 1 << 20)
    with (
        server(Drip(DRIPS[part])) as address,
        pytest.raises(Unreachable, match=r"no end after|timed out"),
        open_price_file(address) as file,
    ):
        file.read()


def test_prices_without_an_end_are_not_kept(monkeypatch):
    monkeypatch.setattr(price_download, "_LARGEST_FILE", 1 << 20)
    with (
        server(flood) as address,
        pytest.raises(Unreachable, match="more than 1 MiB"),
        open_price_file(address) as file,
    ):
        file.read()
