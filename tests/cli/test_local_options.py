"""Options and verbs of local jobs, given for jobs that are not local."""

import click
import pytest
from click.testing import CliRunner

from launcher.client.cli import LocalChoices, main


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        ({"isolation": "network"}, "--isolation"),
        ({"host_failure": "tolerate"}, "--host-failure"),
        ({"no_install": True}, "--no-install"),
        ({"python": "/usr/bin/python3"}, "--python"),
        ({"engine": "podman"}, "--engine"),
        ({"image": "cpu"}, "--image"),
        ({"host_memory": "4g"}, "--host-memory"),
        ({"credentials": True}, "--credentials"),
    ],
)
def test_an_option_of_local_hosts_is_refused_for_others(choice, option):
    with pytest.raises(click.UsageError, match=f"{option} goes with a local job"):
        LocalChoices(**choice).session_arguments("aws")
    assert LocalChoices().session_arguments("aws") == {}


@pytest.mark.parametrize("option", ["--samples", "--seconds"])
def test_how_much_is_read_goes_with_reading(option):
    result = CliRunner().invoke(main, ["check", option, "5"])
    assert result.exit_code == 2
    assert "--samples and --seconds go with --data" in result.stderr


@pytest.fixture
def elsewhere(aws):
    """The name of a job on AWS."""
    aws("sagemaker").create_training_job(
        TrainingJobName="there",
        AlgorithmSpecification={"TrainingImage": "image:1", "TrainingInputMode": "File"},
        RoleArn="arn:aws:iam::123456789012:role/Training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/out"},
        ResourceConfig={"InstanceCount": 1, "InstanceType": "ml.c5.xlarge", "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )
    return "there"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["stop", "--spot", "there"], "there, AWS alone takes spot instances back"),
        (["exec", "there", "--host", "algo-2", "--", "ls"], "sagemaker-training-job:there_algo-2"),
        (["download", "there", "x"], "`launcher download there --to x` writes the job's results"),
    ],
)
def test_a_job_on_aws_is_named_as_one(elsewhere, words, advice):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "job there runs" in result.stderr
    assert advice in result.stderr
