"""From a spec to a job on AWS: nothing is sent while something is wrong; many at once."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from front import Refuse

from launcher import AwsSession, PyTorch, Refused, SpecError
from launcher.client.request import prepare
from launcher.client.sessions import new_job_name, place
from launcher.client.submit import send

PLACES = {
    "image_uri": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1",
    "role": "arn:aws:iam::123456789012:role/Training",
    "instance_type": "ml.m5.large",
    "instance_count": 1,
}


def estimator(spec, **arguments):
    return PyTorch("train.py", source_dir=spec.source_dir, **PLACES, **arguments)


# One after the other ------------------------------------------------------------------------------


def test_the_order_of_a_submission(session, front, prepared):
    send(prepared(), session)
    order = [call.operation for call in front.calls]
    assert order[:2] == ["GetCallerIdentity", "DescribeTrainingJob"]
    assert order[-1] == "CreateTrainingJob"
    assert set(order[2:-1]) == {"HEAD", "PUT", "COPY"}


def test_what_is_sent_is_what_was_built(session, front, prepared):
    submission = prepared()
    send(submission, session)
    (call,) = front.of("CreateTrainingJob")
    assert json.loads(call.body) == submission.request


@pytest.mark.long
def test_a_name_that_was_used_is_refused_before_anything_is_sent(session, front, prepared):
    send(prepared("job-1"), session)
    before = len(front.calls)
    with pytest.raises(SpecError, match="was used for a job before"):
        send(prepared("job-1"), session)
    assert [call.operation for call in front.calls[before:]] == ["DescribeTrainingJob"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"output_path": "file:///tmp/out"}, "output_path", id="output"),
        pytest.param({"code_location": "file:///tmp/code"}, "code_location", id="code"),
    ],
)
def test_places_of_this_machine_are_refused(session, front, prepared, change, field):
    with pytest.raises(SpecError, match=field):
        prepared(**change)
    assert front.count() in ({}, {"GetCallerIdentity": 1})


def test_objects_left_behind_by_a_refused_job_are_listed(session, front, prepared):
    front.meet("CreateTrainingJob", Refuse("ResourceLimitExceeded", "0 Instances"))
    submission = prepared("job-1")
    with pytest.raises(Refused, match="servicequotas") as refused:
        send(submission, session)
    for uri in submission.objects:
        assert uri in str(refused.value)


@pytest.mark.long
def test_the_objects_of_a_job_whose_name_is_taken_are_not_to_be_deleted(session, front, prepared):
    """The other job, which was sent in the same second, may run from them."""
    front.meet("CreateTrainingJob", Refuse("ResourceInUse", "already exists"))
    with pytest.raises(Refused, match="may be that job's now: s3://") as refused:
        send(prepared("job-1"), session)
    assert "left behind" not in str(refused.value)


# Through the Estimator ----------------------------------------------------------------------------


@pytest.mark.long
def test_an_estimator_without_a_session_asks_aws(front, spec):
    job = estimator(spec).fit(wait=False, job_name="job-1")
    assert isinstance(job.session, AwsSession)
    assert front.count("CreateTrainingJob") == 1
    assert PyTorch.attach("job-1").latest_training_job.session.region == "eu-west-1"


@pytest.mark.long
def test_the_session_of_the_sagemaker_package_sets_credentials_and_region(front, spec, foreign):
    mine = boto3.Session("AKIAMINE", "made-up", region_name="us-west-2")
    image = PLACES["image_uri"].replace("eu-west-1", "us-west-2")
    made = estimator(spec, sagemaker_session=foreign(mine))
    made.image_uri = image
    made.fit(wait=False, job_name="job-1")
    for call in front.calls:
        assert "AKIAMINE" in call.headers["Authorization"]
    (created,) = front.of("CreateTrainingJob")
    assert "us-west-2" in created.headers["Authorization"]
    attached = PyTorch.attach("job-1", sagemaker_session=foreign(mine))
    assert attached.latest_training_job.session.region == "us-west-2"


# Many at once -------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("count", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_each_of_many_jobs_sent_at_once_is_created_once(session, front, spec, count, monkeypatch):
    # One moto for so many calls may take longer for one than AWS does.
    for name in ("_READ_SECONDS", "_S3_READ_SECONDS"):
        monkeypatch.setattr(f"launcher.client.sessions.aws.clients.{name}", 300)
    together = threading.Barrier(count, timeout=540)

    def submit(_):
        together.wait()
        name = new_job_name(spec)
        send(prepare(spec, place(spec, session, name)), session)
        return name

    with ThreadPoolExecutor(count) as threads:
        names = list(threads.map(submit, range(count)))
    assert len(set(names)) == count
    listed = session.list_training_jobs()["TrainingJobSummaries"]
    assert sorted(entry["TrainingJobName"] for entry in listed) == sorted(names)
    assert front.count("CreateTrainingJob") == count
    assert front.count("GetCallerIdentity") == 1
    bundles = [call for call in front.of("PUT") if call.path.endswith("bundle.tar.gz")]
    assert len(bundles) == 1


def test_names_of_one_second_differ(spec):
    assert len({new_job_name(spec) for _ in range(5000)}) == 5000


def test_the_token_is_in_no_repr(spec, session):
    placement = place(spec, session, "job-1")
    assert placement.token not in repr(placement)
    assert placement.token not in repr(prepare(spec, placement))
