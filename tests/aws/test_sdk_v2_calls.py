"""What notebooks of SDK v2 call on a Session beside training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from front import Answer, Page

from launcher import CloudError, LauncherError, Session

ACCOUNT = "123456789012"


@pytest.fixture
def session(front, boto):
    return Session(boto)


@pytest.fixture
def stored(past):
    s3 = past("s3")
    s3.create_bucket(
        Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    for key in ("data/a.txt", "data/deep/b.txt", "data/deep/", "data2/c.txt", "top.txt"):
        s3.put_object(Bucket="my-bucket", Key=key, Body=f"this is {key}".encode())
    return s3


def test_the_account_and_its_clients(session, boto, make_role):
    assert session.account_id() == session.account == ACCOUNT
    assert session.get_caller_identity_arn().startswith(f"arn:aws:sts::{ACCOUNT}:")
    assert session.expand_role(make_role("training")) == f"arn:aws:iam::{ACCOUNT}:role/training"
    assert session.boto_session is boto
    assert session.sagemaker_client.meta.region_name == "eu-west-1"
    assert session.local_mode is False
    assert session.s3_client.list_buckets()["Buckets"] == []


def test_a_job_is_described_and_stopped_by_position(session, past, prepared, front):
    past("sagemaker").create_training_job(**prepared("job-1").request)
    described = session.describe_training_job("job-1")
    assert described == session.describe_training_job(TrainingJobName="job-1")
    front.meet("StopTrainingJob", Answer({}))
    session.stop_training_job("job-1")
    (call,) = front.of("StopTrainingJob")
    assert json.loads(call.body) == {"TrainingJobName": "job-1"}


def test_texts_go_to_s3_and_come_back(session, stored):
    uri = session.upload_string_as_file_body("grüße", "my-bucket", "notes/a.txt")
    assert uri == "s3://my-bucket/notes/a.txt"
    assert session.read_s3_file("my-bucket", "notes/a.txt") == "grüße"
    assert session.list_s3_files("my-bucket", "notes/") == ["notes/a.txt"]


def test_a_list_of_objects_without_an_end_is_given_up(session, stored, front):
    page = (
        "<ListBucketResult><Contents><Key>data/a.txt</Key><Size>1</Size></Contents>"
        "<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>"
        "</ListBucketResult>"
    )
    front.meet("GET", *(Page(page.format(number)) for number in range(100)))
    with pytest.raises(CloudError, match="pages without a new object"):
        session.list_s3_files("my-bucket", "data/")


@pytest.mark.parametrize(
    ("prefix", "files"),
    [
        ("data/", ["a.txt", "deep/b.txt"]),
        ("data/deep", ["b.txt"]),
        ("data/a.txt", ["a.txt"]),
        ("data", ["a.txt", "deep/b.txt", "data2/c.txt"]),
        ("", ["data/a.txt", "data/deep/b.txt", "data2/c.txt", "top.txt"]),
        ("none", []),
    ],
)
def test_data_is_downloaded_without_its_prefix(session, stored, tmp_path, prefix, files):
    found = session.download_data(tmp_path / "here", "my-bucket", prefix)
    assert found == [str(tmp_path / "here" / file) for file in files]
    assert all(Path(file).read_text().startswith("this is ") for file in found)


@pytest.mark.parametrize("keys", [("a", "a/b"), ("a//b", "a/b")], ids=["file, folder", "one file"])
def test_keys_that_no_folder_can_hold_are_named(session, stored, tmp_path, keys):
    for key in keys:
        stored.put_object(Bucket="my-bucket", Key=f"odd/{key}", Body=b"")
    first, second = (f"'odd/{key}'" for key in keys)
    with pytest.raises(LauncherError, match=f"the objects {first} and {second} cannot be files"):
        session.download_data(tmp_path, "my-bucket", "odd/")
    assert list(tmp_path.rglob("*")) == []


def test_a_key_does_not_leave_the_folder(session, stored, tmp_path):
    stored.put_object(Bucket="my-bucket", Key="bad/../../../x", Body=b"")
    with pytest.raises(LauncherError, match="its key leaves the folder"):
        session.download_data(tmp_path, "my-bucket", "bad")
    assert list(tmp_path.rglob("x")) == []
