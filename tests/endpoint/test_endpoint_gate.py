"""Who is let in: programs of this machine that have the key, and nobody else."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import urllib.request
from typing import Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from customer import Customer

BODY = json.dumps({"MaxResults": 1}).encode()


def signed(customer: Customer, body: bytes = BODY, **headers: str) -> dict[str, str]:
    """The headers of a ListTrainingJobs request that is signed with the endpoint's key."""
    environment = customer.endpoint.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    plain = {
        "Content-Type": "application/x-amz-json-1.1",
        "X-Amz-Target": "SageMaker.ListTrainingJobs",
        **headers,
    }
    request = AWSRequest("POST", f"{customer.endpoint.url}/", headers=plain, data=body)
    SigV4Auth(keys, "sagemaker", "us-east-1").add_auth(request)
    return dict(request.headers.items())


def answer(customer: Customer, headers: dict[str, str], body: bytes = BODY) -> tuple[int, Any]:
    """(status, document) of a raw request."""
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def refused(request: str | urllib.request.Request) -> int:
    """The status of a refusal; its body is a connection, which would stay open."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    caught.value.close()
    return caught.value.code


@pytest.mark.long
def test_a_signed_request_is_answered(customer: Customer) -> None:
    status, document = answer(customer, signed(customer))
    document.pop("NextToken", None)  # jobs of other tests are there before
    assert (status, list(document)) == (200, ["TrainingJobSummaries"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Host": "attacker.example"}, "AccessDenied"),
        ({"Host": "localhost"}, "AccessDenied"),
        ({"Origin": "https://attacker.example"}, "AccessDenied"),
        ({"Authorization": ""}, "MissingAuthenticationTokenException"),
        ({"Authorization": "Bearer abc"}, "MissingAuthenticationTokenException"),
        ({"X-Amz-Date": "20200101T000000Z"}, "RequestExpired"),
        ({"X-Amz-Target": "SageMaker.CreateTrainingJob"}, "InvalidSignatureException"),
    ],
    ids=str,
)
def test_a_changed_request_is_refused(
    customer: Customer, changes: dict[str, str], code: str
) -> None:
    status, document = answer(customer, {**signed(customer), **changes})
    assert (status, document["__type"]) == (403, code)


def test_a_changed_body_is_refused(customer: Customer) -> None:
    status, document = answer(customer, signed(customer), b'{"MaxResults": 2}')
    assert (status, document["__type"]) == (403, "InvalidSignatureException")


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_changed_body_for_s3_is_refused(customer: Customer, method: str) -> None:
    customer.s3.create_bucket(Bucket="changed")
    customer.s3.put_object(Bucket="changed", Key="kept", Body=b"content")
    environment = customer.endpoint.environment
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    path = "/changed/kept" if method == "PUT" else "/changed?delete"
    request = AWSRequest(method, f"{customer.endpoint.url}{path}", data=b"<Delete></Delete>")
    S3SigV4Auth(keys, "s3", "us-east-1").add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=30)
    with contextlib.closing(connection):
        changed = b"<Delete><Object><Key>kept</Key></Object></Delete>"
        connection.request(method, path, changed, dict(request.headers.items()))
        response = connection.getresponse()
        assert (response.status, b"XAmzContentSHA256Mismatch" in response.read()) == (400, True)
    assert customer.s3.get_object(Bucket="changed", Key="kept")["Body"].read() == b"content"


@pytest.mark.parametrize(
    ("service", "call", "codes"),
    [
        (
            "sagemaker",
            "list_training_jobs",
            ("UnrecognizedClientException", "InvalidSignatureException"),
        ),
        ("s3", "list_buckets", ("InvalidAccessKeyId", "SignatureDoesNotMatch")),
        ("sts", "get_caller_identity", ("InvalidClientTokenId", "SignatureDoesNotMatch")),
        ("ec2", "describe_instances", ("InvalidClientTokenId", "SignatureDoesNotMatch")),
        (
            "logs",
            "describe_log_groups",
            ("UnrecognizedClientException", "InvalidSignatureException"),
        ),
    ],
)
def test_a_wrong_key_is_refused_in_each_service(
    customer: Customer, service: str, call: str, codes: tuple[str, str]
) -> None:
    own = customer.endpoint.environment["AWS_ACCESS_KEY_ID"]
    for key_id, code in zip(("AKIAIOSFODNN7EXAMPLE", own), codes, strict=True):
        client = boto3.client(
            service,
            endpoint_url=customer.endpoint.url,
            region_name="us-east-1",
            aws_access_key_id=key_id,
            aws_secret_access_key="not the endpoint's secret",
        )
        with pytest.raises(ClientError) as caught:
            getattr(client, call)()
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_moto_s_own_doors_are_shut(customer: Customer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", customer.endpoint.port, timeout=30)
    with contextlib.closing(connection):
        for path in ("/moto-api/reset", "/moto-api/data.json", "/latest/meta-data/iam/"):
            connection.request("POST", path)
            response = connection.getresponse()
            assert response.status == 403
            response.read()


def test_other_services_are_not_there(customer: Customer) -> None:
    with pytest.raises(ClientError, match="launcher endpoint has no lambda"):
        customer.endpoint.client("lambda").list_functions()


def test_a_presigned_url_opens_its_object_only(customer: Customer) -> None:
    customer.s3.create_bucket(Bucket="presigned")
    customer.s3.put_object(Bucket="presigned", Key="a b/ü+c.txt", Body=b"content")
    s3 = customer.endpoint.client("s3", config=Config(signature_version="s3v4"))
    url = s3.generate_presigned_url(
        "get_object", Params={"Bucket": "presigned", "Key": "a b/ü+c.txt"}
    )
    with urllib.request.urlopen(url) as opened:
        assert opened.read() == b"content"
    assert refused(url.replace("c.txt", "d.txt")) == 403


@pytest.mark.long
def test_an_assumed_role_is_let_in(customer: Customer) -> None:
    sts = customer.endpoint.client("sts")
    role = customer.endpoint.client("iam").get_role(RoleName="LauncherLocalRole")["Role"]["Arn"]
    keys = sts.assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    assumed = boto3.client(
        "sagemaker",
        endpoint_url=customer.endpoint.url,
        region_name="us-east-1",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    assert "TrainingJobSummaries" in assumed.list_training_jobs()


@pytest.fixture
def presigning(customer: Customer) -> Any:
    customer.s3.create_bucket(Bucket="presigned")
    customer.s3.put_object(Bucket="presigned", Key="secret", Body=b"secret")
    return customer.endpoint.client("s3", config=Config(signature_version="s3v4"))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Amz-Copy-Source", "/presigned/secret"),
        (
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=A/20261122/us-east-1/iam/aws4_request, "
            f"SignedHeaders=host, Signature={'0' * 64}",
        ),
    ],
    ids=["another object's content", "another service"],
)
def test_a_presigned_url_takes_no_more_than_was_signed(
    customer: Customer, presigning: Any, header: str, value: str
) -> None:
    url = presigning.generate_presigned_url(
        "put_object", Params={"Bucket": "presigned", "Key": "gift"}
    )
    plain = urllib.request.Request(url, data=b"gift", method="PUT")
    with urllib.request.urlopen(plain) as written:
        assert written.status == 200
    more = urllib.request.Request(url, data=b"", method="PUT", headers={header: value})
    assert refused(more) in (400, 403)
    assert customer.s3.get_object(Bucket="presigned", Key="gift")["Body"].read() == b"gift"


def test_a_presigned_signature_of_other_letters_is_refused(presigning: Any) -> None:
    url = presigning.generate_presigned_url(
        "get_object", Params={"Bucket": "presigned", "Key": "secret"}
    )
    assert refused(url.partition("X-Amz-Signature=")[0] + "X-Amz-Signature=%C3%A9") == 403


def test_a_target_that_is_no_url_is_refused(customer: Customer) -> None:
    with socket.create_connection(("127.0.0.1", customer.endpoint.port), timeout=30) as connection:
        connection.sendall(b"GET http://[::1/ HTTP/1.1\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def test_a_presigned_url_is_for_a_week_at_most(presigning: Any) -> None:
    url = presigning.generate_presigned_url(
        "get_object", Params={"Bucket": "presigned", "Key": "secret"}, ExpiresIn=604801
    )
    assert refused(url) == 403


def test_a_body_that_no_request_needs_is_not_read(customer: Customer) -> None:
    headers = signed(customer) | {"Content-Length": str(2**34)}
    status, document = answer(customer, headers)
    assert (status, document["__type"]) == (413, "RequestEntityTooLargeException")
