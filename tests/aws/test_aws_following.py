"""Jobs on AWS that are followed while AWS does not answer, or has no instances."""

import os
import signal
import threading
import time

import pytest
from click.testing import CliRunner
from front import Alter, Cut, Hold, Refuse

from launcher import CredentialsExpired, Job
from launcher.client.cli import Detached, detach_on_ctrl_c, main
from launcher.client.sessions import RetryPolicy
from launcher.client.sessions.aws import transient_errors
from launcher.client.submit import send
from launcher.errors import Unreachable

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


@pytest.mark.long
def test_a_wait_survives_expired_credentials_and_a_cut_network(job, front):
    told = []
    front.meet(
        "DescribeTrainingJob", Refuse("ExpiredTokenException", "renew"), Cut(after=False), None
    )
    assert job.wait(notices=told.append).status == "Completed"
    assert len(told) == 2
    assert told[0].startswith("no response: ExpiredTokenException: renew")
    assert "launcher logs -f rings" in told[0]


@pytest.mark.long
def test_credentials_that_stay_expired_end_the_wait_with_the_way_back(job, front):
    front.meet("DescribeTrainingJob", *[Refuse("ExpiredTokenException", "renew")] * 50)
    impatient = Job("rings", job.session, give_up_seconds=2)
    with pytest.raises(CredentialsExpired, match="The job continues") as raised:
        impatient.wait()
    assert raised.value.exit_code == 4
    assert "`launcher logs -f rings`" in str(raised.value)


@pytest.mark.long
def test_ctrl_c_leaves_a_job_while_aws_does_not_answer(job, front):
    front.meet("DescribeTrainingJob", Hold())

    def leave():
        with detach_on_ctrl_c(job):
            os.kill(os.getpid(), signal.SIGINT)
            job.wait()

    with pytest.raises(Detached):
        leave()


@pytest.fixture
def run(front, tmp_path):
    """`launcher run` of a job with an alternative."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "job.yaml").write_text(JOB)

    def invoke(*options):
        words = ["run", str(tmp_path / "job.yaml"), "--yes", "--name", "rings", *options]
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, words, catch_exceptions=False)

    return invoke


@pytest.mark.long
def test_where_the_first_type_is_not_to_be_had_the_next_is_sent(run, front, past):
    front.meet("CreateTrainingJob", NO_CAPACITY, None)
    result = run()
    assert result.exit_code == 0, result.stderr
    assert "trying train: ml.g6.xlarge, choice 2 of 2: job rings-2" in result.stderr
    assert "Job      rings-2" in result.stdout
    sent = past("sagemaker").describe_training_job(TrainingJobName="rings-2")
    assert sent["ResourceConfig"]["InstanceGroups"][0]["InstanceType"] == "ml.g6.xlarge"


@pytest.mark.long
def test_where_nothing_is_to_be_had_the_exit_code_is_five(run, front):
    front.meet("CreateTrainingJob", NO_CAPACITY, NO_CAPACITY)
    result = run()
    assert result.exit_code == 5
    assert "job rings was tried 2 times and got no instances" in result.stderr
    assert "InsufficientCapacityException: none left" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--detach"], id="left"),
        pytest.param([], id="followed", marks=pytest.mark.slow),
    ],
)
def test_a_run_survives_throttling_of_every_call(run, front, options):
    """Each operation is refused before it is answered, as often as it is asked."""
    for operation in ("HEAD", "PUT", "COPY", "GET"):
        front.meet(operation, *[Refuse("SlowDown", "reduce your rate", 503), None] * 50)
    for operation in (
        "GetCallerIdentity",
        "CreateTrainingJob",
        "DescribeTrainingJob",
        "DescribeLogStreams",
        "GetLogEvents",
    ):
        front.meet(operation, *[Refuse("ThrottlingException", "Rate exceeded"), None] * 50)
    result = run(*options)
    assert result.exit_code == 0, result.stderr
    assert front.count("CreateTrainingJob") == 2
    assert options or "Status   Completed" in result.stdout


@pytest.mark.long
@pytest.mark.parametrize("operation", ["GetCallerIdentity", "PUT", "CreateTrainingJob"])
def test_credentials_that_expire_on_the_way_end_a_run_that_created_nothing(
    run, front, past, operation
):
    front.meet(operation, *[Refuse("ExpiredToken", "The provided token has expired.")] * 9)
    result = run()
    assert result.exit_code == 4
    assert "ExpiredToken" in result.stderr
    assert "aws sso login" in result.stderr
    assert past("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


@pytest.mark.long
def test_ctrl_c_ends_an_upload_and_nothing_is_created(run, front):
    front.meet("PUT", Hold())

    def press():
        while not front.count("PUT"):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    result = run()
    assert result.exit_code == 3
    assert "job rings was not sent" in result.stderr
    assert front.count("CreateTrainingJob") == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [2, 5])
def test_after_the_creation_every_error_explains_how_to_follow_the_job(run, front, number):
    """Whichever of the questions is the one that has no answer."""
    runs = Alter({"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"})
    answered = [None, *[runs] * (number - 2)]
    front.meet("DescribeTrainingJob", *answered, *[Refuse("AccessDeniedException")] * 99)
    result = run()
    assert result.exit_code == 4
    assert front.count("CreateTrainingJob") == 1
    assert "AccessDeniedException" in result.stderr
    assert "follow it again with `launcher logs -f rings`" in result.stderr


@pytest.mark.long
def test_a_detached_run_warns_that_no_other_type_is_tried(run, front):
    front.meet("CreateTrainingJob", NO_CAPACITY, None)
    result = run("--detach")
    assert result.exit_code == 5
    assert "have no effect without waiting" in result.stderr
    assert front.count("CreateTrainingJob") == 1


@pytest.mark.parametrize(
    ("state", "shown", "code"),
    [
        pytest.param("Completed", "Model    s3://", 0, id="completed"),
        pytest.param(
            "Failed", "Cause    algo-1 (homogeneousCluster): the disk is full", 1, id="failed"
        ),
    ],
)
def test_the_state_of_a_job_is_shown_to_who_may_not_read_its_logs(job, front, state, shown, code):
    state = {"TrainingJobStatus": state, "SecondaryStatus": state}
    reason = {"FailureReason": "the disk is full"} if code else {}
    front.meet("DescribeTrainingJob", *[Alter({**state, **reason})] * 9)
    no_logs = "User: arn:x is not authorized to perform: logs:DescribeLogStreams"
    front.meet("DescribeLogStreams", *[Refuse("AccessDeniedException", no_logs)] * 9)
    words = ["status", "rings", "--cloud"]
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(main, words, catch_exceptions=False)
    assert result.exit_code == code, result.stderr
    assert f"\nStatus   {state['SecondaryStatus']}\n" in result.stdout
    logs = f"\nLogs     not read, nor what they have about data: AccessDeniedException: {no_logs}"
    assert logs in result.stdout
    assert "\n         fix: your identity lacks this permission: request it" in result.stdout
    assert f"\n{shown}" in result.stdout
    assert job.summary()["logs_refused"].startswith(f"AccessDeniedException: {no_logs}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"SecondaryStatus": "Training"}, "is Completed and Training at once"),
        ({"SecondaryStatus": "Failed"}, "is Completed and Failed at once"),
        ({"TrainingEndTime": None}, "is Completed, but has no end time"),
        (
            {"TrainingJobStatus": "Failed", "SecondaryStatus": "Stopped"},
            "is Failed and Stopped at once",
        ),
    ],
)
def test_an_answer_that_contradicts_itself_ends_no_job(job, front, fields, said, monkeypatch):
    monkeypatch.setattr(transient_errors, "READ_POLICY", RetryPolicy(seconds=0.1))
    front.meet("DescribeTrainingJob", *[Alter(fields)] * 99)
    with pytest.raises(Unreachable, match=said):
        Job("rings", job.session, give_up_seconds=0.1).wait()
    front.meet("DescribeTrainingJob", Alter(fields))
    assert job.wait().status == "Completed"
