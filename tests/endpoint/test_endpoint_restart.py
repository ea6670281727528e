"""An endpoint that is killed and started again: nothing is lost, and nothing is said twice."""

from __future__ import annotations

import contextlib
import http.client
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from customer import BUCKET, Customer
from test_endpoint_life import OBEDIENT
from waiting import wait_until

from launcher.client.endpoint import ServedEndpoint, serve
from launcher.client.sessions import LocalSession

KEY_NAMES = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
COUNTING = """
import os, pathlib, time
model = pathlib.Path(__file__).parents[3] / "model" / "weights"
model.write_text("trained")
for number in range(100_000):
    print("line", number, flush=True)
    if pathlib.Path(os.environ["ENOUGH"]).exists():
        break
    time.sleep(0.01)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "endpoint"


@pytest.mark.long
def test_a_job_and_its_log_survive_kill_9(root: Path) -> None:
    with serve(root, isolation="process") as first:
        before = Customer(first, root)
        before.submit("counts", COUNTING, Environment={"ENOUGH": str(root / "enough")})
        before.submit("waits", OBEDIENT)
        before.wait("counts", "SecondaryStatus", "Training")
        before.wait("waits", "SecondaryStatus", "Training")
        arn = before.describe("counts")["TrainingJobArn"]
        before.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "a"}])
        read = wait_until(lambda: before.lines("counts"))
        first.process.kill()
        first.process.wait()
    with serve(root, port=first.port, isolation="process") as second:
        assert second.environment == first.environment
        after = Customer(second, root)
        assert after.describe("counts")["SecondaryStatus"] == "Training"
        names = [
            job["TrainingJobName"]
            for job in after.sagemaker.list_training_jobs()["TrainingJobSummaries"]
        ]
        assert sorted(names) == ["counts", "waits"]
        tags = after.sagemaker.list_tags(ResourceArn=arn)["Tags"]
        assert tags == [{"Key": "team", "Value": "a"}]
        after.sagemaker.stop_training_job(TrainingJobName="waits")
        (root / "enough").touch()
        assert after.end_of("counts")["TrainingJobStatus"] == "Completed"
        assert after.end_of("waits")["TrainingJobStatus"] == "Stopped"
        lines = after.lines("counts")
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert len(lines) > len(read) > 0


@pytest.mark.long
def test_results_wait_for_the_endpoint(root: Path) -> None:
    with serve(root, isolation="process") as first:
        before = Customer(first, root)
        before.submit("results", COUNTING, Environment={"ENOUGH": str(root / "enough")})
        before.wait("results", "SecondaryStatus", "Training")
        first.process.kill()
        first.process.wait()
    (root / "enough").touch()
    local = LocalSession(root)
    wait_until(
        lambda: (
            local.describe_training_job(TrainingJobName="results")["SecondaryStatus"] == "Uploading"
        )
    )
    with serve(root, port=first.port, isolation="process") as second:
        after = Customer(second, root)
        document = after.end_of("results")
        assert document["TrainingJobStatus"] == "Completed", document.get("FailureReason")
        uri = document["ModelArtifacts"]["S3ModelArtifacts"]
        assert uri == f"s3://{BUCKET}/output/results/output/model.tar.gz"
        content = after.s3.get_object(Bucket=BUCKET, Key=uri.partition(f"{BUCKET}/")[2])["Body"]
        with tarfile.open(fileobj=io.BytesIO(content.read())) as archive:
            assert archive.extractfile("weights").read() == b"trained"


@pytest.mark.long
def test_objects_survive_kill_9(root: Path) -> None:
    with serve(root) as first:
        s3 = first.client("s3")
        for bucket in ("kept", "emptied", "gone"):
            s3.create_bucket(Bucket=bucket)
        s3.delete_bucket(Bucket="gone")
        s3.put_object(
            Bucket="kept",
            Key="a folder/ü+ ä.bin",
            Body=b"first",
            ContentType="text/x-test",
            Metadata={"author": "me"},
            Tagging="colour=blue",
        )
        (root / "large").write_bytes(bytes(range(256)) * 80_000)  # more than one part
        s3.upload_file(str(root / "large"), "kept", "large")
        s3.copy_object(Bucket="kept", Key="copy", CopySource={"Bucket": "kept", "Key": "large"})
        for key in ("one & two", "three", "four"):
            s3.put_object(Bucket="emptied", Key=key, Body=b"x")
        s3.delete_objects(
            Bucket="emptied", Delete={"Objects": [{"Key": "one & two"}, {"Key": "three"}]}
        )
        s3.delete_object(Bucket="emptied", Key="four")
        expected = _contents(s3, "kept")
        first.process.kill()
        first.process.wait()
    with serve(root) as second:
        s3 = second.client("s3")
        assert sorted(each["Name"] for each in s3.list_buckets()["Buckets"]) == ["emptied", "kept"]
        assert "Contents" not in s3.list_objects_v2(Bucket="emptied")
        assert _contents(s3, "kept") == expected
        assert len(expected) == 3


def _contents(s3, bucket):
    """All that a client sees of a bucket's objects."""
    found = {}
    for each in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        answer = s3.get_object(Bucket=bucket, Key=each["Key"])
        tags = s3.get_object_tagging(Bucket=bucket, Key=each["Key"])["TagSet"]
        seen = [answer[field] for field in ("ETag", "LastModified", "ContentType", "Metadata")]
        found[each["Key"]] = (each["Size"], seen, tags, answer["Body"].read())
    return found


@pytest.mark.long
def test_objects_whose_keys_are_escaped_in_xml_stay_deleted(root: Path) -> None:
    keys = ["a\rb", "a&b", "a<b", 'a"b', "<Key>x</Key>", "left"]
    with serve(root, isolation="process") as endpoint:
        s3 = endpoint.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        for key in keys:
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys[:-1]]})
    with serve(root, isolation="process") as endpoint:
        found = endpoint.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
        assert [each["Key"] for each in found] == ["left"]


@pytest.mark.long
def test_one_root_has_one_endpoint_and_one_port_too(root: Path, tmp_path: Path) -> None:
    with serve(root) as endpoint:
        same_root = _failure("--root", str(root), "--port", "0")
        assert "another endpoint uses" in same_root
        same_port = _failure("--root", str(tmp_path / "other"), "--port", str(endpoint.port))
        assert f"cannot listen on port {endpoint.port} of 127.0.0.1" in same_port


def _failure(*arguments: str) -> str:
    """What an endpoint says that does not start."""
    command = [sys.executable, "-m", "launcher", "endpoint", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.long
def test_objects_survive_requests_that_name_no_bucket(root: Path) -> None:
    with serve(root) as first:
        first.client("s3").create_bucket(Bucket="kept")
        first.client("s3").put_object(Bucket="kept", Key="key", Body=b"content")
        for path in ("/", "/..", "/../kept"):
            headers = signed_s3(first, path)
            connection = http.client.HTTPConnection("127.0.0.1", first.port, timeout=30)
            with contextlib.closing(connection):
                connection.request("POST", path, b"", headers)
                connection.getresponse().read()
    with serve(root) as second:
        found = second.client("s3").get_object(Bucket="kept", Key="key")
        assert found["Body"].read() == b"content"


def signed_s3(endpoint: ServedEndpoint, path: str) -> dict[str, str]:
    """The headers of a POST without a body."""
    keys = Credentials(*(endpoint.environment[f"AWS_{name}"] for name in KEY_NAMES))
    request = AWSRequest("POST", f"{endpoint.url}{path}", data=b"")
    S3SigV4Auth(keys, "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items())


@pytest.mark.long
def test_an_object_is_the_old_one_or_the_new(root: Path) -> None:
    """A server that is killed between the two files of an object leaves no mixture of objects."""
    with serve(root) as first:
        s3 = first.client("s3")
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="key", Body=b"old")
        folder = root / "s3" / "kept"
        s3.put_object(Bucket="kept", Key="key", Body=b"new", Metadata={"is": "new"})
        s3.put_object(Bucket="kept", Key="second", Body=b"x")
        assert len(list(folder.glob("*.data"))) == 2
    (folder / "unnamed.data").write_bytes(b"half")  # what a killed server had begun
    with serve(root) as second:
        found = second.client("s3").get_object(Bucket="kept", Key="key")
        assert (found["Body"].read(), found["Metadata"]) == (b"new", {"is": "new"})
        assert len(list(folder.glob("*.data"))) == 2
