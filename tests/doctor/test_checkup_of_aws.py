"""What is seen of AWS from here: over HTTP, against moto's server."""

import json
import socket
import subprocess
import sys
import time

import pytest
from trust import TRUST

from launcher.client.doctor import Level, cloud_checks
from launcher.client.spec import InstanceGroup, JobSpec

ACCOUNT = "123456789012"
IMAGE = f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/team/train"


def spec(**fields):
    given = {"entry_point": "train.py", "instance_type": "ml.g5.xlarge", "instance_count": 1}
    return JobSpec(**{**given, **fields})


def look(job=None, **options):
    """The findings by subject."""
    found = {}
    for finding in cloud_checks.check(job, use_instance_role=False, **options):
        found.setdefault(finding.subject, []).append(finding)
    return found


def only(found, subject):
    (finding,) = found[subject]
    return finding


# Who we are ---------------------------------------------------------------------------------------


def test_without_credentials_nothing_is_requested(offline):
    found = look()
    assert set(found) == {"region", "credentials"}
    assert only(found, "region").level is Level.PROBLEM
    credentials = only(found, "credentials")
    assert credentials.level is Level.PROBLEM
    assert "aws configure" in credentials.fix


def test_a_profile_that_is_not_there(offline):
    offline.setenv("AWS_PROFILE", "absent")
    assert "absent" in only(look(), "credentials").what


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        pytest.param("AWS_ENDPOINT_URL", "no address", id="endpoint"),
        pytest.param("AWS_DEFAULT_REGION", "no region!", id="region"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(credentials, variable, value):
    credentials.setenv(variable, value)
    finding = only(look(), "credentials")
    assert finding.level is Level.PROBLEM
    assert value.split()[0] in finding.what


def test_a_configuration_that_cannot_be_read(credentials, tmp_path):
    (tmp_path / "config").write_text("[default\nregion = eu-west-1\n")
    credentials.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert str(tmp_path / "config") in only(look(), "credentials").what


def test_identity_and_region(aws):
    found = look()
    assert only(found, "region").what == "eu-west-1"
    assert only(found, "credentials").level is Level.OK
    assert ACCOUNT in only(found, "credentials").what


@pytest.fixture
def silent(credentials):
    """An AWS that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield server


def test_a_silent_network_is_given_up_within_seconds(silent):
    start = time.monotonic()
    credentials = only(look(spec(role="Training", image_uri=f"{IMAGE}:1")), "credentials")
    assert credentials.level is Level.PROBLEM
    assert "cannot be verified" in credentials.what
    # 3 s are what one question is given; more is said by the guard against hangs alone.
    assert time.monotonic() - start < 20


@pytest.mark.long
def test_a_closed_network(credentials):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{address[1]}")
    assert "cannot be verified" in only(look(), "credentials").what


def test_boto_is_imported_when_aws_is_asked():
    program = "import sys, launcher.client.cli.verbs.check\n"
    program += "print({'boto3', 'botocore'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=540, check=True
    )
    assert run.stdout == "set()\n"


# The role -----------------------------------------------------------------------------------------


def make_role(aws, trust=TRUST, **fields):
    answer = aws("iam").create_role(
        RoleName="Training", AssumeRolePolicyDocument=json.dumps(trust), **fields
    )
    return answer["Role"]["Arn"]


@pytest.mark.long
def test_a_role_that_sagemaker_may_assume(aws):
    arn = make_role(aws)
    for role in ("Training", arn):
        finding = only(look(spec(role=role)), "role")
        assert finding.level is Level.OK, finding


def test_a_role_with_a_path(aws):
    arn = make_role(aws, Path="/service-role/")
    assert "/service-role/" in arn
    assert only(look(spec(role=arn)), "role").level is Level.OK


def changed(**fields):
    return {"Version": "2012-10-17", "Statement": [{**TRUST["Statement"][0], **fields}]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("trust", "level"),
    [
        pytest.param(changed(Principal={"Service": "ec2.amazonaws.com"}), Level.PROBLEM, id="ec2"),
        pytest.param(
            changed(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"}), Level.PROBLEM, id="account"
        ),
        pytest.param(changed(Effect="Deny"), Level.PROBLEM, id="denied"),
        pytest.param(changed(Action="sts:TagSession"), Level.PROBLEM, id="another action"),
        pytest.param(
            changed(Principal={"Service": ["ec2.amazonaws.com", "sagemaker.amazonaws.com"]}),
            Level.OK,
            id="list of services",
        ),
        pytest.param(
            changed(Action=["sts:AssumeRole", "sts:TagSession"]), Level.OK, id="list of actions"
        ),
    ],
)
def test_the_trust_policy_decides(aws, trust, level):
    make_role(aws, trust)
    finding = only(look(spec(role="Training")), "role")
    assert finding.level is level
    if level is Level.PROBLEM:
        assert "sagemaker.amazonaws.com" in finding.fix


def test_a_role_that_does_not_exist(aws):
    finding = only(look(spec(role="Trainign")), "role")
    assert finding.level is Level.PROBLEM
    assert "the role Trainign does not exist" in finding.what


def test_a_role_of_another_account_cannot_be_seen(aws):
    finding = only(look(spec(role="arn:aws:iam::999988887777:role/Training")), "role")
    assert finding.level is Level.WARNING
    assert "cannot be checked from here" in finding.what


def test_without_a_role_ones_own_is_guessed(aws, credentials):
    make_role(aws)
    assert only(look(spec()), "role").level is Level.WARNING
    assumed = aws("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/Training", RoleSessionName="notebook"
    )["Credentials"]
    credentials.setenv("AWS_ACCESS_KEY_ID", assumed["AccessKeyId"])
    credentials.setenv("AWS_SECRET_ACCESS_KEY", assumed["SecretAccessKey"])
    credentials.setenv("AWS_SESSION_TOKEN", assumed["SessionToken"])
    finding = only(look(spec()), "role")
    assert finding.level is Level.OK, finding
    assert "assumed" in finding.what


# The image ----------------------------------------------------------------------------------------


@pytest.fixture
def repository(aws):
    client = aws("ecr")
    client.create_repository(repositoryName="team/train")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": 7023,
            "digest": "sha256:" + "b" * 64,
        },
        "layers": [
            {
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": 3 * 2**30,
                "digest": "sha256:" + "c" * 64,
            }
        ],
    }
    image = client.put_image(
        repositoryName="team/train", imageTag="1", imageManifest=json.dumps(manifest)
    )
    return image["image"]["imageId"]["imageDigest"]


@pytest.mark.long
def test_an_image_that_is_there(repository):
    for uri in (f"{IMAGE}:1", f"{IMAGE}@{repository}"):
        finding = only(look(spec(image_uri=uri)), "image")
        assert finding.level is Level.OK, finding


@pytest.mark.long
@pytest.mark.parametrize(
    "uri",
    [
        pytest.param(f"{IMAGE}:2", id="tag"),
        pytest.param(IMAGE, id="latest"),
        pytest.param(f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/absent:1", id="repository"),
    ],
)
def test_an_image_that_is_not_there(repository, uri):
    finding = only(look(spec(image_uri=uri)), "image")
    assert finding.level is Level.PROBLEM
    assert "image_uri" in finding.fix


def test_an_image_elsewhere_cannot_be_seen(aws):
    finding = only(look(spec(image_uri="ghcr.io/team/train:1")), "image")
    assert finding.level is Level.WARNING
    assert "is not checked" in finding.what


def test_an_image_of_another_region(aws, repository, credentials):
    credentials.setenv("AWS_DEFAULT_REGION", "us-east-1")
    finding = only(look(spec(image_uri=f"{IMAGE}:1")), "image")
    assert finding.level is Level.WARNING
    assert "us-east-1" in finding.what


def test_a_job_without_an_image_is_not_asked_for_one(aws):
    assert "image" not in look(spec())


# Quotas -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_quota_for_each_type_of_the_job(quotas):
    groups = [
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "instance_count": 3},
        {"instance_group_name": "more", "instance_type": "ml.c5.xlarge", "instance_count": 1},
        {"instance_group_name": "train", "instance_type": "ml.g5.xlarge", "instance_count": 2},
        {"instance_group_name": "odd", "instance_type": "ml.x9.large", "instance_count": 1},
    ]
    job = spec(
        instance_type=None,
        instance_count=None,
        instance_groups=[InstanceGroup(**group) for group in groups],
    )
    enough, too_few, unknown = look(job)["quota"]
    assert (enough.level, too_few.level, unknown.level) == (
        Level.OK,
        Level.PROBLEM,
        Level.WARNING,
    )
    assert enough.what == "ml.c5.xlarge: 4 at a time; the job needs 4"
    assert '"ml.g5.xlarge for training job usage"' in too_few.fix
    assert "ml.x9.large" in unknown.what


def test_quotas_that_cannot_be_read_are_no_problem(aws):
    """As far as moto goes: it has no ListServiceQuotas, and answers with an error."""
    finding = only(look(spec()), "quota")
    assert finding.level is Level.WARNING
    assert "cannot be checked from here" in finding.what


@pytest.mark.long
def test_without_a_region_no_quota_is_read(quotas, credentials):
    credentials.delenv("AWS_DEFAULT_REGION")
    found = look(spec())
    assert only(found, "region").level is Level.PROBLEM
    assert "quota" not in found


def test_a_local_job_has_no_quota(aws):
    assert "quota" not in look(spec(instance_type="local"))


@pytest.mark.long
def test_spot_instances_have_quotas_of_their_own(quotas):
    quotas.append(("ml.g5.xlarge for spot training job usage", 0.0))
    finding = only(look(spec(use_spot_instances=True)), "quota")
    assert finding.level is Level.PROBLEM
    assert '"ml.g5.xlarge for spot training job usage"' in finding.fix
