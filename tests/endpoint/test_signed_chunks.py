"""Bodies for S3 that are signed chunk by chunk: what was not signed is refused."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from customer import Customer

from launcher.client.endpoint import (
    SIGNED_CHUNKS,
    SIGNED_TRAILER,
    ChunkSigner,
    Scope,
    signed_length,
)

#: The examples of the S3 API reference, with and without a trailer: 65,536 and 1,024 times "a".
SCOPE = Scope(access_key="KEY", date="20130524", region="us-east-1", service="s3")
SIGNER = ChunkSigner(
    key=SCOPE.signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    time="20130524T000000Z",
    scope=SCOPE,
)
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
BODY = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature="
    + b"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature="
    + b"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
TRAILER_BODY = (
    b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature="
    + b"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature="
    + b"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
    + b"x-amz-checksum-crc32c:sOO8/Q==\n\r\n"
    + b"x-amz-trailer-signature:"
    + b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
)


def test_the_examples_of_the_reference_are_signed() -> None:
    assert signed_length(BODY, SIGNER, SEED, has_trailer=False) == 66560
    assert signed_length(TRAILER_BODY, SIGNER, TRAILER_SEED, has_trailer=True) == 66560


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b"a", b"b", 1),
        lambda body: body[:-100],
        lambda body: body[: body.index(b"\r\n400;") + 2],
        lambda body: body + b"400;",
        lambda body: body.replace(b"10000;", b"fffffff;"),
        lambda body: body.replace(b"\r\n400;", b"xx400;"),
        lambda body: b"",
        lambda body: b"-1" + body,
    ],
    ids=["content", "cut", "a chunk less", "more", "size", "separator", "empty", "head"],
)
def test_another_body_is_not(change: Callable[[bytes], bytes]) -> None:
    assert signed_length(change(BODY), SIGNER, SEED, has_trailer=False) is None
    assert signed_length(change(TRAILER_BODY), SIGNER, TRAILER_SEED, has_trailer=True) is None


def test_another_trailer_is_not() -> None:
    for changed in (TRAILER_BODY.replace(b"sOO8/Q==", b"AAAAAA=="), BODY):
        assert signed_length(changed, SIGNER, TRAILER_SEED, has_trailer=True) is None
    assert signed_length(TRAILER_BODY, SIGNER, TRAILER_SEED, has_trailer=False) is None


def put(customer: Customer, chunk: bytes, sent: bytes, kind: str, length: int) -> tuple[int, bytes]:
    """Sign `chunk`, and send a body that has `sent` in its place; return status and answer."""
    environment = customer.endpoint.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    request: Any = AWSRequest("PUT", f"{customer.endpoint.url}/chunks/key", data=chunk)
    request.headers["X-Amz-Decoded-Content-Length"] = str(length)

    class InChunks(S3SigV4Auth):
        def payload(self, _request: Any) -> str:
            return kind

    InChunks(keys, "s3", "us-east-1").add_auth(request)
    headers = dict(request.headers.items())
    scope = Scope.parse(headers["Authorization"].partition("Credential=")[2].partition(",")[0])
    key = scope.signing_key(str(keys.secret_key))
    signer = ChunkSigner(key=key, time=headers["X-Amz-Date"], scope=scope)
    first = signer.chunk(headers["Authorization"].rpartition("=")[2], chunk)
    last = signer.chunk(first, b"")
    body = (
        f"{len(sent):x};chunk-signature={first}\r\n".encode()
        + sent
        + f"\r\n0;chunk-signature={last}\r\n".encode()
    )
    if kind == SIGNED_TRAILER:
        body += f"x-amz-trailer-signature:{signer.trailer(last, b'')}\r\n".encode()
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("PUT", "/chunks/key", body + b"\r\n", headers)
        response = connection.getresponse()
        return response.status, response.read()


@pytest.mark.parametrize("kind", [SIGNED_CHUNKS, SIGNED_TRAILER])
def test_the_endpoint_stores_only_chunks_that_were_signed(customer: Customer, kind: str) -> None:
    customer.s3.create_bucket(Bucket="chunks")
    assert put(customer, b"content", b"content", kind, 7)[0] == 200
    status, text = put(customer, b"content", b"CONTENT", kind, 7)
    assert (status, b"SignatureDoesNotMatch" in text) == (403, True)
    status, text = put(customer, b"content", b"content", kind, 1 << 40)
    assert (status, b"IncompleteBody" in text) == (400, True)
    assert customer.s3.get_object(Bucket="chunks", Key="key")["Body"].read() == b"content"
