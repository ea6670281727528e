"""AwsSession before a moto whose calls can be made to fail."""

from functools import cache, partial
from types import SimpleNamespace

import boto3
import pytest
from front import serve

from launcher import AwsSession, JobSpec
from launcher.client.request import prepare
from launcher.client.sessions import new_job_name, place

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/Training"


@pytest.fixture
def front(aws, credentials, moto_address):
    """What AwsSession calls; `aws` makes clients that pass it by."""
    front, server = serve(moto_address)
    credentials.setenv("AWS_ENDPOINT_URL", front.address)
    yield front
    front.closed.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def boto():
    """A boto3 session for all tests: it reads the models of the services once."""
    return boto3.Session("AKIAEXAMPLE", "made-up", region_name="eu-west-1")


@pytest.fixture(scope="session")
def direct(boto, moto_address):
    """Clients by service, each made once."""
    return cache(partial(boto.client, endpoint_url=moto_address))


@pytest.fixture
def past(aws, direct):
    """Clients of the same account that do not go through the front."""
    return direct


@pytest.fixture
def told():
    """What the session says while it waits."""
    return []


@pytest.fixture
def session(front, told, boto):
    return AwsSession(boto_session=boto, notify=told.append)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_text("print('hello')\n")
    return JobSpec(
        entry_point="train.py",
        source_dir=str(tmp_path / "source"),
        instance_type="ml.m5.large",
        instance_count=1,
        role=ROLE,
        image_uri=f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/train:1",
    )


@pytest.fixture
def prepared(spec, session):
    """A submission of the spec, made for the session, with the changes given."""

    def make(name=None, **changes):
        changed = spec.replace(**changes)
        return prepare(changed, place(changed, session, name or new_job_name(changed)))

    return make


@pytest.fixture
def assume(past, credentials):
    """Go on as a role, as a notebook does."""

    def become(arn):
        keys = past("sts").assume_role(RoleArn=arn, RoleSessionName="notebook")["Credentials"]
        credentials.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
        credentials.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
        credentials.setenv("AWS_SESSION_TOKEN", keys["SessionToken"])

    return become


@pytest.fixture
def foreign(front):
    """What a Session of the `sagemaker` package looks like."""

    def make(boto_session):
        return SimpleNamespace(
            local_mode=False,
            boto_session=boto_session,
            boto_region_name=boto_session.region_name,
            _default_bucket_name_override=None,
        )

    return make
