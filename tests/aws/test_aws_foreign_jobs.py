"""Jobs that another tool has made: each verb answers, or says why it cannot."""

import json

import pytest
from click.testing import CliRunner
from front import Alter

from launcher import Estimator, Job, LauncherError
from launcher.client.cli import main
from launcher.client.submit import send

#: What DescribeTrainingJob says otherwise of such a job; None: nothing.
DESCRIPTIONS = {
    "serverless": {
        "ResourceConfig": None,
        "AlgorithmSpecification": None,
        "StoppingCondition": None,
        "RoleArn": None,
        "LastModifiedTime": None,
    },
    "instances of a choice": {"ResourceConfig": {"VolumeSizeInGB": 30}},
    "code in a file system": {
        "InputDataConfig": [
            {
                "ChannelName": "code",
                "DataSource": {
                    "FileSystemDataSource": {
                        "FileSystemId": "fs-12345678",
                        "FileSystemAccessMode": "ro",
                        "FileSystemType": "EFS",
                        "DirectoryPath": "/",
                    }
                },
            }
        ]
    },
    "no channel, bare texts": {
        "InputDataConfig": None,
        "HyperParameters": {"optimizer": "adam", "note": "{not json"},
        "FinalMetricDataList": [{"MetricName": "loss"}],
    },
}


@pytest.fixture(params=DESCRIPTIONS)
def job(request, session, front, prepared):
    send(prepared("rings"), session)
    front.meet("DescribeTrainingJob", *[Alter(DESCRIPTIONS[request.param])] * 99)
    return Job("rings", session, poll_seconds=0.1)


@pytest.mark.long
def test_it_is_shown_followed_and_attached_to(job):
    runner = CliRunner(env={"NO_COLOR": "1"})
    shown = runner.invoke(
        main, ["status", "rings", "--cloud", "-o", "json"], catch_exceptions=False
    )
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["status"] == "Completed"
    assert runner.invoke(main, ["status", "rings", "--cloud"]).stdout.startswith("\nJob      rings")
    logs = runner.invoke(main, ["logs", "rings", "--cloud"], catch_exceptions=False)
    assert logs.exit_code == 0
    assert job.wait().status == "Completed"
    assert Estimator.attach("rings", job.session).latest_training_job.name == "rings"


@pytest.mark.long
def test_serverless_machines_are_not_free(session, front, prepared):
    send(prepared("rings"), session)
    front.meet("DescribeTrainingJob", *[Alter(DESCRIPTIONS["serverless"])] * 9)
    assert Job("rings", session).cost() is None


def test_results_that_are_nowhere_named_cannot_be_fetched(session, front, prepared, tmp_path):
    send(prepared("rings"), session)
    front.meet("DescribeTrainingJob", *[Alter({"OutputDataConfig": None})] * 9)
    with pytest.raises(LauncherError, match="has no S3OutputPath"):
        Job("rings", session).download_artifacts(tmp_path)
