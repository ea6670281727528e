"""What answers the local platform's S3 client is not S3: an error in words, in bounded time."""

from __future__ import annotations

import base64
import itertools
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from launcher.client.sessions import S3Client, S3Failed, TransferStopped

_LIST = """<?xml version="1.0"?><ListBucketResult>{content}<IsTruncated>true</IsTruncated>
<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"""
_OBJECT = "<Contents><Key>{key}</Key><Size>1</Size></Contents>"


class _Silent:
    def progress(self, done: int) -> None: ...
    def note(self, text: str) -> None: ...
    def check(self) -> None: ...
    def wait(self, seconds: float) -> None: ...


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A server that answers in S3's place during the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "key")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield
        server.shutdown()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server that answers each request with the only text in this list, "{token}" filled in."""
    found: list[str] = []
    numbers = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = found[0].replace("{token}", f"t{next(numbers)}").encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None: ...

    with serving(Handler, monkeypatch):
        yield found


@pytest.mark.parametrize(
    "answer",
    [
        "<html>Sign in</html>",
        "<html>Sign",
        _LIST.format(content="<Contents><Size>1</Size></Contents>", token="{token}"),
        _LIST.format(content="", token="{token}"),
        _LIST.format(content=_OBJECT.format(key="a"), token="{token}"),
    ],
    ids=[
        "a page",
        "half a page",
        "an object without a key",
        "tokens without end",
        "the same page without end",
    ],
)
def test_a_list_that_is_not_of_s3(answers: list[str], answer: str) -> None:
    answers.append(answer)
    with pytest.raises(S3Failed, match="what answers is not AWS"):
        S3Client(_Silent()).list("s3://bucket/data/", retry_seconds=0.0)


def test_an_object_that_is_not_of_s3(answers: list[str], tmp_path: Path) -> None:
    answers.append("<html>Sign in</html>")
    client = S3Client(_Silent())
    with pytest.raises(S3Failed, match="what answers is not AWS"):
        client.read("s3://bucket/list", retry_seconds=0.0)
    with pytest.raises(S3Failed, match="s3://bucket/x: what answers is not AWS"):
        client.fetch({"s3://bucket/x": tmp_path / "x"}, retry_seconds=0.0)


def test_a_damaged_object_is_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bodies = [b"damaged", b"content", b"damaged", b"content"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.send_header("ETag", '"tag"')
            checksum = zlib.crc32(b"content").to_bytes(4, "big")
            self.send_header("x-amz-checksum-crc32", base64.b64encode(checksum).decode())
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(bodies.pop(0))

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None: ...

    with serving(Handler, monkeypatch):
        client = S3Client(_Silent())
        client.fetch({"s3://bucket/x": tmp_path / "x"}, retry_seconds=60.0)
        assert client.read("s3://bucket/x", retry_seconds=60.0) == b"content"
    assert (tmp_path / "x").read_bytes() == b"content"
    assert not bodies


class _Stopped(_Silent):
    def check(self) -> None:
        raise TransferStopped


@pytest.mark.parametrize("name", ["list", "read", "fetch"])
def test_a_stop_ends_the_wait_for_an_s3_that_is_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    with serving(BaseHTTPRequestHandler, monkeypatch):
        client = S3Client(_Stopped())  # the server is gone after the block
    wanted = {"s3://bucket/a": tmp_path / "a"} if name == "fetch" else "s3://bucket/a"
    with pytest.raises(TransferStopped):
        getattr(client, name)(wanted, 3.0)
