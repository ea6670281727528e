"""Region, account, role and default bucket: found where AWS's own tools find them."""

import json

import boto3
import pytest
from front import Page, Refuse

from launcher import AwsSession, CloudError, Refused, SpecError, get_execution_role
from launcher.client.sessions import Clients
from launcher.client.sessions.aws import caller_identity

ACCOUNT = "123456789012"
BUCKET = f"sagemaker-eu-west-1-{ACCOUNT}"
ARN = f"arn:aws:iam::{ACCOUNT}:role/Training"


# Region and account -------------------------------------------------------------------------------


def test_the_region_is_the_given_the_sessions_or_the_configured(front, credentials):
    assert AwsSession("us-west-2").region == "us-west-2"
    assert AwsSession(boto_session=boto3.Session(region_name="eu-north-1")).region == "eu-north-1"
    assert AwsSession().region == "eu-west-1"
    credentials.delenv("AWS_DEFAULT_REGION")
    credentials.setenv("AWS_REGION", "ap-south-1")
    assert AwsSession().region == "ap-south-1"
    assert front.calls == []


def test_without_a_region(front, credentials):
    credentials.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(CloudError, match="aws configure set region"):
        AwsSession().list_training_jobs()


def test_the_account_is_asked_for_once(session, front):
    assert session.account == session.account == ACCOUNT
    assert front.count() == {"GetCallerIdentity": 1}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(Page("<html>Sign in to the hotel</html>"), id="a hotel's page"),
        pytest.param(Page("<GetCallerIdentityResponse><GetCaller"), id="half an answer"),
        pytest.param(Page("busy", 529), id="an error that is no XML"),
    ],
)
def test_what_is_no_answer_of_aws_is_asked_again(session, front, page):
    front.meet("GetCallerIdentity", page)
    assert session.account == ACCOUNT
    assert front.count("GetCallerIdentity") == 2


def test_a_given_boto_session_is_the_one_that_asks(front):
    mine = boto3.Session("AKIAMINE", "made-up", region_name="us-west-2")
    AwsSession(boto_session=mine).list_training_jobs()
    (call,) = front.calls
    assert "AKIAMINE" in call.headers["Authorization"]
    assert "us-west-2" in call.headers["Authorization"]


# The role -----------------------------------------------------------------------------------------


def test_a_role_by_arn_is_not_looked_up(session, front):
    assert session.role_arn(ARN) == ARN
    assert front.calls == []


@pytest.mark.parametrize("path", ["/", "/service-role/"])
def test_a_role_by_name(session, make_role, path):
    arn = make_role("Training", Path=path)
    assert session.role_arn("Training") == arn
    assert path in arn


def test_a_role_that_does_not_exist(session, front):
    with pytest.raises(SpecError, match="there is no IAM role 'Trainign'"):
        session.role_arn("Trainign")


def test_a_role_that_may_not_be_looked_up(session, front):
    front.meet("GetRole", Refuse("AccessDenied", "not authorized to perform: iam:GetRole", 403))
    with pytest.raises(Refused, match="use the ARN of the role Training"):
        session.role_arn("Training")


@pytest.mark.long
def test_without_a_role_it_is_our_own_assumed_one(front, make_role, assume):
    arn = make_role("Training", Path="/service-role/")
    assume(arn)
    assert AwsSession().role_arn(None) == arn


def test_a_notebooks_role_is_that_of_the_given_session(front, boto, foreign, make_role, assume):
    arn = make_role("Training")
    assume(arn)
    assert get_execution_role() == arn
    with pytest.raises(SpecError, match="set role"):  # boto is a person's
        get_execution_role(foreign(boto))
    with pytest.raises(SpecError, match="an object of the class Session is not a session"):
        get_execution_role(boto)


def test_a_person_is_no_role(session):
    with pytest.raises(SpecError, match="set role"):
        session.role_arn(None)


def test_what_a_person_signs_in_with_is_no_role_for_jobs(front, make_role, assume):
    assume(make_role("AWSReservedSSO_Admin_0123456789abcdef"))
    with pytest.raises(SpecError, match="AWSReservedSSO_Admin"):
        AwsSession().role_arn(None)


def test_in_studio_the_role_is_in_the_metadata(front, tmp_path):
    metadata = tmp_path / "resource-metadata.json"
    metadata.write_text(json.dumps({"DomainId": "d-1", "ExecutionRoleArn": ARN}))
    assert caller_identity.role_arn(Clients(None), None, metadata) == ARN
    assert front.calls == []


def test_on_a_notebook_instance_the_role_is_the_instances(front, past, tmp_path):
    past("sagemaker").create_notebook_instance(
        NotebookInstanceName="mine", InstanceType="ml.t2.medium", RoleArn=ARN
    )
    metadata = tmp_path / "resource-metadata.json"
    metadata.write_text(json.dumps({"ResourceName": "mine"}))
    assert caller_identity.role_arn(Clients(None), None, metadata) == ARN


# The default bucket -------------------------------------------------------------------------------


def test_nothing_is_made_before_something_is_stored(session, front, past, prepared):
    prepared()
    assert session.default_location() == f"s3://{BUCKET}"
    assert past("s3").list_buckets()["Buckets"] == []
    assert front.count() == {"GetCallerIdentity": 1}


def test_the_bucket_is_made_once_and_is_not_public(session, front, past):
    for name in ("a", "b"):
        session.upload(b"content", f"s3://{BUCKET}/{name}")
    blocked = past("s3").get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    assert past("s3").get_bucket_location(Bucket=BUCKET)["LocationConstraint"] == "eu-west-1"
    assert [call.path for call in front.of("PUT")] == [
        f"/{BUCKET}",
        f"/{BUCKET}?publicAccessBlock",
        f"/{BUCKET}/a",
        f"/{BUCKET}/b",
    ]


def test_it_is_made_for_output_alone_too(session, past, prepared):
    past("s3").create_bucket(
        Bucket="code", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    submission = prepared(code_location="s3://code/jobs")
    session.create_training_job(**submission.request)
    assert past("s3").head_bucket(Bucket=BUCKET)


def test_in_the_first_region_no_place_is_named(front, past):
    AwsSession("us-east-1").upload(b"content", f"s3://sagemaker-us-east-1-{ACCOUNT}/a")
    location = past("s3").get_bucket_location(Bucket=f"sagemaker-us-east-1-{ACCOUNT}")
    assert location["LocationConstraint"] is None


def test_a_bucket_that_somebody_else_has_made_first(session, front):
    front.meet("HEAD", Refuse("AccessDenied", "", 403))
    with pytest.raises(CloudError, match="belongs to another account"):
        session.upload(b"content", f"s3://{BUCKET}/a")
    (head,) = front.of("HEAD")
    assert head.headers["x-amz-expected-bucket-owner"] == ACCOUNT
    assert front.of("PUT") == []


def test_another_default_bucket(front, past):
    session = AwsSession(default_bucket="of-the-team")
    assert session.default_location() == "s3://of-the-team"
    session.upload(b"content", "s3://of-the-team/a")
    assert past("s3").head_bucket(Bucket="of-the-team")
    assert front.count("GetCallerIdentity") == 0


def test_the_default_bucket_has_a_prefix():
    session = AwsSession(default_bucket="of-the-team", default_bucket_prefix="/vision/")
    assert session.default_location() == "s3://of-the-team/vision"


def test_other_buckets_are_never_made(session, past):
    with pytest.raises(Refused, match="create the bucket"):
        session.upload(b"content", "s3://not-there/a")
    assert past("s3").list_buckets()["Buckets"] == []


def test_the_default_bucket_comes_from_a_file_of_defaults(tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    file = tmp_path / "config.yaml"
    file.write_text("default_bucket: of-the-file\ndefault_bucket_prefix: vision\n")
    assert AwsSession().default_location() == "s3://of-the-file/vision"
    given = AwsSession(default_bucket="of-the-team", default_bucket_prefix="own")
    assert given.default_location() == "s3://of-the-team/own"
