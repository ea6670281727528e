"""launcher run --dry-run --resolve: AWS fills in what a job leaves open; nothing is made there."""

import json

import pytest

from launcher import Estimator, SpecError

IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:2"
JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.m5.xlarge
instance_count: 1
role: Training
image_uri: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1
"""


@pytest.fixture
def account(aws, make_role):
    """What there is in the account that a job could make or change."""
    make_role("Training")
    aws("ecr").create_repository(repositoryName="train")
    manifest = json.dumps({"mediaType": "application/vnd.oci.image.manifest.v1+json"})
    aws("ecr").put_image(repositoryName="train", imageTag="2", imageManifest=manifest)

    def state():
        buckets = [bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"]]
        return {
            "buckets": buckets,
            "objects": [aws("s3").list_objects_v2(Bucket=name)["KeyCount"] for name in buckets],
            "jobs": aws("sagemaker").list_training_jobs()["TrainingJobSummaries"],
            "roles": len(aws("iam").list_roles()["Roles"]),
        }

    return state


@pytest.mark.long
def test_what_the_job_leaves_open_is_filled_in_and_nothing_is_made(terminal, account):
    before = account()
    result = terminal(
        "run", terminal.write(job=JOB), "--dry-run", "--resolve", "--set", f"image_uri={IMAGE}"
    )
    assert result.exit_code == 0, result.stderr
    request = json.loads(result.stdout)
    assert request["RoleArn"] == "arn:aws:iam::123456789012:role/Training"
    output = request["OutputDataConfig"]["S3OutputPath"]
    assert output == "s3://sagemaker-eu-west-1-123456789012"
    assert "Training, which SageMaker may assume" in result.stderr
    assert account() == before
    assert before["buckets"] == []


@pytest.mark.long
def test_problems_on_aws_are_reported_beside_the_request(terminal, account):
    before = account()
    result = terminal(
        "run", terminal.write(job=JOB), "--dry-run", "--resolve", "--set", "output_path=s3://absent"
    )
    assert result.exit_code == 2
    assert "the bucket absent (output_path) does not exist" in result.stderr
    assert "does not exist (ImageNotFoundException" in result.stderr
    assert json.loads(result.stdout)["OutputDataConfig"]["S3OutputPath"] == "s3://absent"
    assert account() == before


def test_without_resolve_aws_is_not_asked(terminal, credentials):
    credentials.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    result = terminal("run", terminal.write(job=JOB), "--dry-run")
    assert result.exit_code == 2
    assert "the request needs output_path" in result.stderr
    assert "needs the role's ARN, and 'Training' is a name" in result.stderr
    assert result.stderr.count("--resolve") == 2


@pytest.mark.parametrize("option", ["--resolve", "--upload"])
@pytest.mark.parametrize("others", [[], ["--dry-run", "--local"]], ids=["no dry run", "local"])
def test_what_goes_with_the_dry_run_of_a_job_for_aws(terminal, option, others):
    result = terminal("run", terminal.write(job=JOB), option, *others)
    assert result.exit_code == 2
    assert "--resolve and --upload go with the --dry-run" in result.stderr


@pytest.mark.long
def test_upload_stores_the_code_of_a_request_that_any_client_can_send(terminal, account, aws):
    aws("s3").create_bucket(
        Bucket="results", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    job = terminal.write(job=JOB + "output_path: s3://results/here\n")
    result = terminal("run", job, "--dry-run", "--upload")
    assert result.exit_code == 0, result.stderr
    request = json.loads(result.stdout)
    code = request["InputDataConfig"][-1]["DataSource"]["S3DataSource"]["S3Uri"]
    stored = aws("s3").list_objects_v2(Bucket="results", Prefix=code.removeprefix("s3://results/"))
    names = {each["Key"].rpartition("/")[2] for each in stored["Contents"]}
    assert names == {"launch.py", "bundle.tar.gz", "launcher.json"}
    assert not aws("sagemaker").list_training_jobs()["TrainingJobSummaries"]
    aws("sagemaker").create_training_job(**request)


@pytest.mark.long
def test_check_judges_the_request_that_would_be_sent(terminal, account):
    before = account()
    result = terminal("check", terminal.write(job=JOB), "--cloud", "-o", "json")
    findings = json.loads(result.stdout)["findings"]
    assert [f["level"] for f in findings if f["part"] == "job"] == ["ok"]
    assert account() == before


@pytest.mark.long
def test_an_estimator_resolves_too(terminal, account):
    terminal.write()
    before = account()
    estimator = Estimator(
        image_uri=IMAGE,
        role="Training",
        instance_count=1,
        instance_type="ml.m5.xlarge",
        entry_point="train.py",
        source_dir=str(terminal.folder),
    )
    with pytest.raises(SpecError, match="the request needs output_path"):
        estimator.request()
    request = estimator.request(resolve=True)
    assert request["RoleArn"] == "arn:aws:iam::123456789012:role/Training"
    assert account() == before
