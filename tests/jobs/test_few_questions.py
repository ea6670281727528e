"""A job's figures are in its description, so one question to the platform answers them."""

import pytest
from test_following_watch import Stage

from launcher import Job
from launcher.client.sessions import LOCAL_PLATFORM
from launcher.errors import JobStopped


class Described(Stage):
    """A platform that counts its descriptions, and whose logs may not be read."""

    poll_seconds = 0.0
    platform = LOCAL_PLATFORM

    def __init__(self, *acts):
        super().__init__(*acts)
        self.descriptions = 0

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        self.descriptions += 1
        described = super().describe_training_job(TrainingJobName=TrainingJobName)
        self.pause(0)
        return described | {
            "ResourceConfig": {"InstanceType": "local", "InstanceCount": 1},
            "ModelArtifacts": {"S3ModelArtifacts": "s3://bucket/job/output/model.tar.gz"},
            "FinalMetricDataList": [{"MetricName": "loss", "Value": 0.25}],
        }

    def log_streams(self, job_name):
        raise AssertionError("the logs were read")


def test_the_metrics_are_read_from_one_description_and_no_log():
    platform = Described(("Completed", "Completed"))
    assert Job("job", platform).metrics == {"loss": 0.25}
    assert platform.descriptions == 1


def test_the_model_of_a_job_that_has_ended_takes_one_description():
    platform = Described(("Completed", "Completed"))
    assert Job("job", platform).model_data == "s3://bucket/job/output/model.tar.gz"
    assert platform.descriptions == 1


def test_the_model_of_a_running_job_takes_no_description_after_the_last():
    platform = Described(("InProgress", "Training"), ("Completed", "Completed"))
    assert Job("job", platform).model_data == "s3://bucket/job/output/model.tar.gz"
    assert platform.descriptions == 2


def test_the_model_of_a_stopped_job_is_refused_by_that_description():
    platform = Described(("Stopped", "Stopped"))
    with pytest.raises(JobStopped):
        Job("job", platform).model_data  # noqa: B018 (the access is the test)
    assert platform.descriptions == 1
