"""Requests that are signed well and mean nothing: each gets an error of AWS's form, and no 500."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from customer import GROUP, Customer

JSON = {"Content-Type": "application/x-amz-json-1.1"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Trick:
    """A request; raw: headers that are changed after it was signed; is_chunked: sent as it is."""

    service: str
    method: str = "POST"
    path: str = "/"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    region: str = "us-east-1"
    is_chunked: bool = False


#: Values that no field has.
ODD = (
    None,
    5,
    -1,
    1.5,
    True,
    "",
    "\ud800",
    "\0",
    "é",
    "a" * 5000,
    "../..",
    [],
    ["a"],
    [5],
    {},
    {"a": 1},
)
BODIES = (
    *(b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff\xfe", b"\xed\xa0\x80", b"[" * 100_000),
    *(b'{"a":' * 5000, b'{"MaxResults": NaN}', b'{"MaxResults":' + b"9" * 5000 + b"}"),
    b'{"MaxResults": 1e400}',
)
#: Operations that get these bodies, which one parser reads for all.
PARSED = ("ListTrainingJobs", "DescribeLogStreams", "Nope")
SAGEMAKER = {
    "DescribeTrainingJob": ("TrainingJobName",),
    "ListTrainingJobs": ("MaxResults", "NextToken", "CreationTimeAfter", "NameContains", "SortBy"),
    "Search": ("Resource", "SearchExpression", "SortBy"),
    "StopTrainingJob": ("TrainingJobName",),
    "DeleteTrainingJob": ("TrainingJobName",),
    "AddTags": ("ResourceArn", "Tags"),
    "ListTags": ("ResourceArn",),
    "CreateTrainingJob": ("TrainingJobName", "ResourceConfig"),
    "ListModels": ("MaxResults", "NextToken"),
    "Nope": ("a",),
}
LOGS = {
    "DescribeLogGroups": ("logGroupNamePrefix", "limit", "nextToken"),
    "DescribeLogStreams": ("logGroupName", "logStreamNamePrefix", "limit", "nextToken", "orderBy"),
    "GetLogEvents": ("logGroupName", "logStreamName", "limit", "nextToken", "startTime"),
    "FilterLogEvents": ("logStreamNames", "logStreamNamePrefix", "filterPattern", "nextToken"),
    "StartQuery": ("logGroupNames", "queryString", "startTime"),
    "GetQueryResults": ("queryId",),
    "PutLogEvents": ("logStreamName", "logEvents"),
    "CreateLogStream": ("logStreamName",),
    "Nope": ("a",),
}
FORMS = (
    *(b"", b"Action=", b"Action=Nope", b"\xff\xfe", b"{}", b"Action=%ff", b"a" * 100),
    b"Action=GetRole&Version=2010-05-08",
    b"Action=AssumeRole&DurationSeconds=x&RoleArn=x&RoleSessionName=y&Version=2011-06-15",
    b"Action=DescribeSubnets&SubnetId.1=x&Version=2016-11-15",
    b"Action=DescribeInstanceTypes&MaxResults=x&Version=2016-11-15",
    b"Action=ListRoles&MaxItems=x&Version=2010-05-08",
    b"Action=GetMetricStatistics&Version=2010-08-01",
    b"Action=GetMetricData&Version=2010-08-01",
)
FORM_SERVICES = ("iam", "sts", "ec2", "monitoring", "pricing", "ecr", "kms", "servicequotas")
PATHS = (
    *("/", "//", "/tricks", "/tricks/", "/tricks/key", "/tricks//key", "/tricks/%2e%2e/x"),
    *("/tricks/%00", "/tricks/%ff", "/TRICKS", "/a", "/..", "/%2e%2e", "/tricks/" + "k" * 1200),
    *(
        f"/tricks?{each}"
        for each in ("uploads", "delete", "acl", "policy", "versioning", "tagging")
    ),
    *(f"/tricks?{each}" for each in ("list-type=2&max-keys=x", "max-keys=-1", "list-type=9")),
    *(
        f"/tricks?{each}"
        for each in ("list-type=2&continuation-token=zz", "encoding-type=zz", "nope")
    ),
    *(f"/tricks?{each}" for each in ("lifecycle", "cors", "encryption", "ownershipControls")),
    *(f"/tricks?{each}" for each in ("publicAccessBlock", "inventory&id=x", "accelerate")),
    *(
        f"/tricks/key?{each}"
        for each in ("uploadId=zz", "partNumber=x&uploadId=zz", "partNumber=0")
    ),
    *(f"/tricks/key?{each}" for each in ("partNumber=1&uploadId=zz", "versionId=zz", "tagging")),
    *(f"/tricks/key?{each}" for each in ("select&select-type=2", "attributes", "retention")),
)
S3_HEADERS = (
    *({"Range": each} for each in ("bytes=x", "bytes=5-1", "bytes=-", "bytes=999-", "lines=1-2")),
    *({"x-amz-copy-source": each} for each in ("", "x", "/tricks/none", "/none/none", "%ff")),
    *({"x-amz-tagging": each} for each in ("%ff", "a", "a=b&a=c")),
    *({"If-Modified-Since": "x"}, {"If-Match": ""}, {"x-amz-acl": "nope"}, {"Expires": "x"}),
    *({"x-amz-checksum-sha256": "x"}, {"x-amz-sdk-checksum-algorithm": "NOPE"}),
    *({"x-amz-object-lock-retain-until-date": "x"}, {"x-amz-grant-read": "x"}),
    *({"x-amz-decoded-content-length": "x"}, {"Content-Encoding": "aws-chunked"}),
    *({"Content-Type": "multipart/form-data"}, {"Content-Type": "multipart/form-data; boundary=x"}),
    *(
        {"x-amz-content-sha256": each}
        for each in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    ),
    {"Cookie": "é=;;"},
)
RAW = (
    *({"Content-Length": each} for each in ("x", "-5", "+3", "1_0", "", "9" * 20)),
    *({"X-Amz-Date": "é"}, {"Authorization": "é"}, {"Host": "é"}, {"X-Amz-Security-Token": "é"}),
    {"X-Amz-Content-Sha256": "é"},
)
CHUNKS = (b"2\r\n{}\r\n0\r\n\r\n", b"zz\r\n", b"f" * 16 + b"\r\n", b"-1\r\n", b"2\r\n{", b"")


def _fields(
    service: str, prefix: str, operations: Mapping[str, tuple[str, ...]]
) -> Iterator[Trick]:
    own = {"logGroupName": GROUP} if service == "logs" else {}
    for operation, names in operations.items():
        headers = {**JSON, "X-Amz-Target": f"{prefix}.{operation}"}
        for body in BODIES if operation in PARSED else ():
            yield Trick(service, body=body, headers=headers)
        for name, value in itertools.product(names, ODD):
            body = json.dumps({**own, name: value}).encode()
            yield Trick(service, body=body, headers=headers)


def tricks(kind: str) -> Iterator[Trick]:
    """The requests of a kind."""
    listing = {**JSON, "X-Amz-Target": "SageMaker.ListTrainingJobs"}
    if kind == "sagemaker":
        yield from _fields("sagemaker", "SageMaker", SAGEMAKER)
    elif kind == "logs":
        yield from _fields("logs", "Logs_20140328", LOGS)
    elif kind == "forms":
        for service, body in itertools.product(FORM_SERVICES, FORMS):
            yield Trick(service, body=body, headers=FORM)
            yield Trick(service, body=body, headers=JSON)
        for service, method in itertools.product(FORM_SERVICES, ("GET", "PUT", "DELETE", "PATCH")):
            yield Trick(service, method, "/a/b?c=d")
    elif kind == "objects":
        for method, path in itertools.product(("GET", "HEAD", "PUT", "POST", "DELETE"), PATHS):
            yield Trick("s3", method, path)
            if method in ("PUT", "POST"):
                yield Trick("s3", method, path, b"<x")
                yield Trick("s3", method, path, b"<a/>")
        for method, headers in itertools.product(("GET", "PUT", "POST"), S3_HEADERS):
            yield Trick("s3", method, "/tricks/key", b"" if method == "GET" else b"x", headers)
    elif kind == "heads":
        for raw in RAW:
            yield Trick("sagemaker", body=b"{}", headers=listing, raw=raw)
            yield Trick("s3", "PUT", "/tricks/key", b"content", raw=raw)
        for region in ("", "x" * 300, "us-east-9", "../.."):
            yield Trick("sagemaker", body=b"{}", headers=listing, region=region)
            yield Trick("s3", "PUT", "/tricks-of-a-region", region=region)
            logs = {**JSON, "X-Amz-Target": "Logs_20140328.DescribeLogGroups"}
            yield Trick("logs", body=b"{}", headers=logs, region=region)
    else:
        for chunks in CHUNKS:
            yield Trick("sagemaker", body=chunks, headers=listing, is_chunked=True)
            yield Trick("s3", "PUT", "/tricks/key", chunks, is_chunked=True)


def respond(customer: Customer, trick: Trick) -> tuple[int, bytes]:
    """The status and the body of the answer to a request."""
    environment, port = customer.endpoint.environment, customer.endpoint.port
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    signed = b"{}" if trick.is_chunked else trick.body
    request = AWSRequest(
        trick.method, customer.endpoint.url + trick.path, headers=dict(trick.headers), data=signed
    )
    signer = S3SigV4Auth if trick.service == "s3" else SigV4Auth
    signer(keys, trick.service, trick.region).add_auth(request)
    headers = {**dict(request.headers.items()), "Host": f"127.0.0.1:{port}", **trick.raw}
    if trick.is_chunked:
        headers["Transfer-Encoding"] = "chunked"
        headers.pop("Content-Length", None)
    elif trick.body:
        headers.setdefault("Content-Length", str(len(trick.body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(f"{trick.method} {trick.path} HTTP/1.1\r\n{head}\r\n".encode())
            connection.sendall(trick.body)
            with contextlib.suppress(OSError):  # ENOTCONN: it has answered and hung up before
                connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection, method=trick.method)
        response.begin()
        return response.status, response.read()


def is_error_of_aws(trick: Trick, content: bytes) -> bool:
    """Return True for an error as the service writes it: JSON with a type, or XML with a code."""
    if trick.method == "HEAD":
        return True
    try:
        return "__type" in json.loads(content)
    except ValueError:
        with contextlib.suppress(ElementTree.ParseError):
            return any(each.tag.endswith("Code") for each in ElementTree.fromstring(content).iter())
        return False


@pytest.mark.parametrize("kind", ["sagemaker", "logs", "forms", "objects", "heads", "chunks"])
def test_no_signed_trick_is_a_fault_of_the_endpoint(customer: Customer, kind: str) -> None:
    customer.s3.create_bucket(Bucket="tricks")
    customer.s3.put_object(Bucket="tricks", Key="key", Body=b"content")
    for name in ("create_log_group", "create_log_stream"):  # for FilterLogEvents to look through
        stream = {"logStreamName": "job-1/algo-1-1"} if name == "create_log_stream" else {}
        with contextlib.suppress(ClientError):  # another kind's test has made it
            getattr(customer.logs, name)(logGroupName="/aws/sagemaker/TrainingJobs", **stream)
    wrong = []
    for trick in tricks(kind):
        try:
            status, content = respond(customer, trick)
        except (OSError, http.client.HTTPException) as error:
            wrong.append(f"{trick}: {error!r}"[:300])
            continue
        is_proper = status < 400 or (status < 500 and is_error_of_aws(trick, content))
        if not is_proper:
            wrong.append(f"{status} {content[:200]!r}: {trick}"[:500])
    assert not wrong, "\n".join([f"{len(wrong)} in all", *wrong[:40]])
