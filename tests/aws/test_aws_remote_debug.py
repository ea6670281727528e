"""Remote debugging of a job that runs, which SageMaker alone can switch."""

from __future__ import annotations

import json

import pytest
from front import Answer, Refuse

from launcher import Estimator, JobNotFound, Refused


@pytest.fixture
def attached(past, prepared, session):
    past("sagemaker").create_training_job(**prepared("job-1").request)
    return Estimator.attach("job-1", session)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_running_job_and_the_next_are_switched(attached, front, enabled):
    front.meet("UpdateTrainingJob", Answer({"TrainingJobArn": "arn"}))
    attached.enable_remote_debug() if enabled else attached.disable_remote_debug()
    (call,) = front.of("UpdateTrainingJob")
    assert json.loads(call.body) == {
        "TrainingJobName": "job-1",
        "RemoteDebugConfig": {"EnableRemoteDebug": enabled},
    }
    assert attached.get_remote_debug_config() == {"EnableRemoteDebug": enabled}


@pytest.mark.long
def test_a_job_that_has_ended_changes_nothing(attached, front):
    refusal = "The training job is in status Completed"
    front.meet("UpdateTrainingJob", Refuse("ValidationException", refusal))
    with pytest.raises(Refused, match=refusal):
        attached.enable_remote_debug()
    assert attached.get_remote_debug_config() is None


def test_a_job_that_is_gone_is_named(attached, front):
    front.meet("UpdateTrainingJob", Refuse("ResourceNotFound", "Requested resource not found."))
    with pytest.raises(JobNotFound, match="no training job 'job-1'"):
        attached.enable_remote_debug()


def test_a_change_whose_answer_is_lost_is_not_repeated(attached, front):
    front.meet("UpdateTrainingJob", Refuse("InternalFailure", "an internal error", status=500))
    with pytest.raises(Refused, match="an internal error"):
        attached.enable_remote_debug()
    assert len(front.of("UpdateTrainingJob")) == 1
    assert attached.get_remote_debug_config() is None


def test_a_throttled_change_is_repeated(attached, front):
    front.meet(
        "UpdateTrainingJob",
        Refuse("ThrottlingException", "Rate exceeded"),
        Answer({"TrainingJobArn": "arn"}),
    )
    attached.enable_remote_debug()
    assert len(front.of("UpdateTrainingJob")) == 2
    assert attached.get_remote_debug_config() == {"EnableRemoteDebug": True}
