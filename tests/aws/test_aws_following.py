"""Jobs on AWS that are followed while AWS does not answer, or has no instances."""

import pytest
from click.testing import CliRunner
from front import Cut, Refuse

from launcher import CredentialsExpired, Job
from launcher.cli import main
from launcher.sessions.submission import send

JOB = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: train, instance_type: ml.g5.xlarge, alternatives: [ml.g6.xlarge]}
role: arn:aws:iam::123456789012:role/Training
image_uri: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1
"""
NO_CAPACITY = Refuse("InsufficientCapacityException", "none left")


@pytest.fixture
def job(session, prepared):
    send(prepared("rings"), session)
    return Job("rings", session, poll_seconds=0.1)


def test_a_wait_survives_expired_credentials_and_a_cut_network(job, front):
    told = []
    front.meet(
        "DescribeTrainingJob", Refuse("ExpiredTokenException", "renew"), Cut(after=False), None
    )
    assert job.wait(notices=told.append).status == "Completed"
    assert len(told) == 2
    assert told[0].startswith("no answer: ExpiredTokenException: renew")
    assert "launcher logs -f rings" in told[0]


def test_credentials_that_stay_expired_end_the_wait_with_the_way_back(job, front):
    front.meet("DescribeTrainingJob", *[Refuse("ExpiredTokenException", "renew")] * 50)
    impatient = Job("rings", job.session, give_up_seconds=2)
    with pytest.raises(CredentialsExpired, match="The job is not affected") as raised:
        impatient.wait()
    assert raised.value.exit_code == 4
    assert "`launcher logs -f rings`" in str(raised.value)


@pytest.fixture
def run(front, tmp_path):
    """`launcher run` of a job with an alternative."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "job.yaml").write_text(JOB)

    def invoke(*options):
        words = ["run", str(tmp_path / "job.yaml"), "--yes", "--name", "rings", *options]
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, words, catch_exceptions=False)

    return invoke


def test_where_the_first_type_is_not_to_be_had_the_next_is_sent(run, front, past):
    front.meet("CreateTrainingJob", NO_CAPACITY, None)
    result = run()
    assert result.exit_code == 0, result.stderr
    assert "trying train: ml.g6.xlarge, choice 2 of 2: job rings-2" in result.stderr
    assert "Job      rings-2" in result.stdout
    sent = past("sagemaker").describe_training_job(TrainingJobName="rings-2")
    assert sent["ResourceConfig"]["InstanceGroups"][0]["InstanceType"] == "ml.g6.xlarge"


def test_where_nothing_is_to_be_had_the_exit_code_is_five(run, front):
    front.meet("CreateTrainingJob", NO_CAPACITY, NO_CAPACITY)
    result = run()
    assert result.exit_code == 5
    assert "job rings was tried 2 times, and AWS had no instances" in result.stderr
    assert "InsufficientCapacityException: none left" in result.stderr


@pytest.mark.parametrize("number", [2, 5])
def test_after_the_creation_every_error_says_how_to_come_back(run, front, number):
    """Whichever of the questions is the one that has no answer."""
    answered = [None] * (number - 1)
    front.meet("DescribeTrainingJob", *answered, *[Refuse("AccessDeniedException")] * 99)
    result = run()
    assert result.exit_code == 4
    assert front.count("CreateTrainingJob") == 1
    assert "AccessDeniedException" in result.stderr
    assert "`launcher logs -f rings` comes back to it" in result.stderr


def test_detached_one_is_told_that_nothing_else_is_tried(run, front):
    front.meet("CreateTrainingJob", NO_CAPACITY, None)
    result = run("--detach")
    assert result.exit_code == 5
    assert "need somebody who waits" in result.stderr
    assert front.count("CreateTrainingJob") == 1
