"""AWS credentials of the user in the hosts: none by default, short-lived ones on request."""

from __future__ import annotations

import os
import re
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fit, printed, processes_mentioning
from containers import NUMPY_IMAGE
from moto.server import ThreadedMotoServer
from needs import skip_without_isolation
from waiting import wait_until

from launcher.client.sessions import LocalSession
from launcher.errors import PlatformError

#: What moto's STS answers to GetSessionToken.
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY"
TOKEN = "AQoEXAMPLEH4aoAH0gNCAPyJxz4BlCFFxWNE1OPTgk5TthT"
#: The image has no boto3: a channel has this machine's.
CALLS_AWS = """\
import os, sys, time
from pathlib import Path
sys.path.append(os.environ.get("SM_CHANNEL_PACKAGES", "/opt/ml/input/data/packages"))
import boto3
print(boto3.client("sts").get_caller_identity()["Account"])
print(boto3.client("s3").get_object(Bucket=os.environ["BUCKET"], Key="a")["Body"].read().decode())
print("I have", os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["AWS_SESSION_TOKEN"])
while not Path("go").exists():
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    """AWS on every address of this machine, which containers reach, too."""
    server = ThreadedMotoServer(ip_address="0.0.0.0", port=0, verbose=False)
    server.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        yield f"http://{probe.getsockname()[0]}:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"isolation": "process"}, id="process", marks=pytest.mark.long),
        pytest.param({"isolation": "sandbox"}, id="sandbox"),
        pytest.param(
            {"isolation": "container", "image": NUMPY_IMAGE},
            id="container",
            marks=pytest.mark.library("containers"),
        ),
    ],
)
def test_a_program_that_calls_aws_ends(
    options: dict[str, Any], account: str, credentials: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import boto3

    skip_without_isolation(options["isolation"])
    credentials.setenv("AWS_ENDPOINT_URL", account)
    place = {"LocationConstraint": os.environ["AWS_DEFAULT_REGION"]}
    bucket = f"data-{options['isolation']}"
    boto3.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
    boto3.client("s3").put_object(Bucket=bucket, Key="a", Body=b"from S3")
    session = LocalSession(tmp_path / "home", **options, credentials=True)
    fields = {"inputs": {"packages": f"file://{sysconfig.get_path('purelib')}"}, "wait": False}
    fields["environment"] = {"BUCKET": bucket}
    job = fit(session, tmp_path / "src", {"train.py": CALLS_AWS}, **fields)
    wait_until(lambda: any("I have" in line for line in printed(job).get("algo-1", ())))

    assert not any(SECRET in command for command in processes_mentioning(SECRET).values())
    session.run_in_host(job.name, "algo-1", ["touch", "go"])
    job.wait(logs=False)
    description = session.describe_training_job(TrainingJobName=job.name)
    assert description["TrainingJobStatus"] == "Completed", description
    assert printed(job)["algo-1"][-3:] == ["123456789012", "from S3", "I have *** ***"]
    (note,) = [each for each in description["LocalNotes"] if "short-lived AWS cred" in each]
    assert re.search(r"which end at \d{4}-\d\d-\d\d \d\d:\d\d UTC and are not renewed", note)
    kept = [path for path in session.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert session.root / "jobs" / job.name / "settings.json" in kept
    for secret in (SECRET, TOKEN, "made-up"):
        assert not [path for path in kept if secret.encode() in path.read_bytes()]


def test_hosts_have_no_credentials_by_default(
    plain_bench: Bench, credentials: pytest.MonkeyPatch
) -> None:
    credentials.setenv("AWS_PROFILE", "mine")
    plain_bench.run("print([name for name in os.environ if name.startswith('AWS_')])")
    assert plain_bench.lines()["algo-1"] == ["['AWS_REGION']"]


@pytest.mark.parametrize(
    ("isolation", "variables", "environment", "words"),
    [
        ("network", {}, {}, "hosts reach no address but each other"),
        ("process", {"AWS_ACCESS_KEY_ID": "mine"}, {}, "AWS_ACCESS_KEY_ID"),
        (
            "process",
            {"LAUNCHER_SECRET_AWS_ACCESS_KEY_ID": "env"},
            {"AWS_ACCESS_KEY_ID": "x" * 16},
            "give one of the two",
        ),
        ("process", {}, {}, "no AWS credentials are found"),
        ("process", {}, {"AWS_ACCESS_KEY_ID": "x" * 16, "AWS_SECRET_ACCESS_KEY": "y"}, "aws sso"),
    ],
    ids=["without-a-way-out", "the-jobs-own", "its-secret", "none-found", "sts-does-not-answer"],
)
def test_credentials_that_cannot_be_given_are_refused(
    isolation: str,
    variables: dict[str, str],
    environment: dict[str, str],
    words: str,
    offline: pytest.MonkeyPatch,
    plain_bench: Bench,
) -> None:
    for name, value in {**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        offline.setenv(name, value)
    request = plain_bench.request("pass", Environment=variables)
    with pytest.raises(PlatformError, match=words):
        LocalSession(plain_bench.session.root, isolation, credentials=True).create_training_job(
            **request
        )
