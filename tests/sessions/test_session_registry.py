"""Sessions by name: Launcher's own, and those of other packages."""

import dataclasses
from datetime import datetime, timedelta, timezone

import pytest

from launcher import CapacityError, Job, MemoryRun, MemorySession, PlatformError, PyTorch, SpecError
from launcher.client.request import Violation
from launcher.client.sessions import MEMORY, is_session, open_session, session_names


def test_own_sessions_come_first():
    assert session_names()[:3] == ["local", "aws", "memory"]
    assert is_session(open_session("local"))
    assert open_session("memory", region="mars").region == "mars"


def test_a_package_brings_one(attic):
    assert session_names()[-1] == "attic"
    session = open_session("attic")
    assert session.platform.uri_scheme == "attic"


def test_an_unknown_name():
    with pytest.raises(PlatformError, match="no session 'atic': the sessions are local, aws, memo"):
        open_session("atic")


@pytest.fixture
def estimator(tmp_path):
    (tmp_path / "train.py").write_text("print('never run')\n")

    def make(session):
        return PyTorch(
            "train.py",
            source_dir=str(tmp_path),
            instance_type="ml.c5.xlarge",
            instance_count=1,
            hyperparameters={"epochs": 3},
            sagemaker_session=session,
        )

    return make


def test_a_users_test_needs_no_platform(estimator, tmp_path):
    run = MemoryRun(lines=["loss=0.25"], metrics={"loss": 0.25}, model=b"weights")
    session = MemorySession(lambda request: run)
    job = estimator(session).fit(max_cost=0, logs=False)
    assert session.requests[job.name]["HyperParameters"] == {"epochs": "3"}
    assert job.metrics == {"loss": 0.25}
    assert [line.text for line in job.logs()] == ["loss=0.25"]
    assert job.cost() is None
    job.session.download(job.model_data, tmp_path / "model.tar.gz")
    assert (tmp_path / "model.tar.gz").read_bytes() == b"weights"


def test_an_estimator_runs_on_an_outsiders_session(attic, estimator):
    session = open_session("attic", course=lambda _request: (["hello"], None))
    job = estimator(session).fit(max_cost=0, logs=False)
    assert [line.text for line in Job(job.name, session).logs()] == ["hello"]


def test_a_job_reads_and_writes_at_the_uris_of_its_session(estimator):
    session = MemorySession(lambda _request: MemoryRun(model=b"weights"))
    first = estimator(session).fit(logs=False)
    second = estimator(session)
    second.model_uri = first.model_data
    second.output_path = "memory://results"
    second.checkpoint_s3_uri = "memory://results/checkpoints"
    job = second.fit({"train": "memory://data/train"}, logs=False)
    request = session.requests[job.name]
    uris = [each["DataSource"]["S3DataSource"]["S3Uri"] for each in request["InputDataConfig"]]
    assert uris[:2] == ["memory://data/train", first.model_data]
    assert request["OutputDataConfig"]["S3OutputPath"] == "memory://results"
    assert request["CheckpointConfig"]["S3Uri"] == "memory://results/checkpoints/"
    with pytest.raises(SpecError, match='"attic://data" is not the URI of data'):
        second.fit({"train": "attic://data"})


def test_a_warning_of_a_platform_refuses_nothing(estimator):
    """It may be about the whole request, without a field."""

    def judge(_request):
        return (Violation(what="slow", fix="wait", aws_message="", is_warning=True),)

    session = MemorySession(platform=dataclasses.replace(MEMORY, judge=judge))
    with pytest.warns(UserWarning, match="slow"):
        job = estimator(session).fit(logs=False)
    assert job.status == "Completed"


def test_a_request_that_a_test_refuses_is_that_of_no_job(estimator):
    def play(_request):
        raise CapacityError("none left")

    session = MemorySession(play)
    with pytest.raises(CapacityError):
        estimator(session).fit(logs=False)
    assert session.requests == {}


def test_jobs_are_listed_by_times_without_a_zone(estimator):
    session = MemorySession()
    job = estimator(session).fit(logs=False)
    now = datetime.now()
    for moment in (now, datetime.now(timezone.utc)):
        listed = session.list_training_jobs(
            CreationTimeAfter=moment - timedelta(hours=1),
            CreationTimeBefore=moment + timedelta(hours=1),
        )
        assert [each["TrainingJobName"] for each in listed["TrainingJobSummaries"]] == [job.name]
