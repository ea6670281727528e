"""A job is followed to its end whatever its logs do, and what is missing is said."""

import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from queue import Empty, SimpleQueue

import pytest
from printed import Printed
from test_following_watch import Stage

from launcher import Job
from launcher.client.jobs import background_log, job, job_follower, retrying_session
from launcher.client.sessions import SAGEMAKER, RetryPolicy
from launcher.errors import CloudError, JobNotFound, LogNotFound, Refused, Unreachable
from launcher.shared import TrainingJobDescription

NAME = "job"
RUNS, ENDS = ("InProgress", "Training"), ("Failed", "Failed")


class Cloud(Stage):
    """A platform that is one description further with each of them; `logs` answers about logs."""

    platform = SAGEMAKER
    poll_seconds = 0.01

    def __init__(self, *acts, logs=lambda: None, lines=()):
        super().__init__(*acts, lines=lines)
        self.descriptions = 0
        self._logs = logs

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        described = super().describe_training_job(TrainingJobName=TrainingJobName)
        self.descriptions += 1
        self.pause(0)
        return described | {
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2},
            "FailureReason": "the disk is full",
            "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/job",
        }

    def log_streams(self, job_name):
        self._logs()
        return super().log_streams(job_name)


def raising(error):
    def logs():
        raise error

    return logs


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(job_follower, "_LAST_SECONDS", 0.5)
    monkeypatch.setattr(background_log, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(retrying_session, "DENIAL_POLICY", RetryPolicy(seconds=0.3, first=0.05))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(Unreachable("AWS does not respond"), "AWS does not respond", id="outage"),
        pytest.param(Refused("no", code="AccessDeniedException"), "no", id="denied"),
        pytest.param(JobNotFound("no such job"), "no such job", id="unknown"),
    ],
)
@pytest.mark.usefixtures("hurried")
def test_without_logs_the_end_is_seen_and_what_is_missing_is_said(error, said):
    told, cloud = [], Cloud(*[RUNS] * 5, ENDS, logs=raising(error))
    job = Job(NAME, cloud)
    job.wait(print, notices=told.append)
    assert job.status == "Failed"
    assert cloud.descriptions <= 7, "the end is the last thing that is asked for"
    assert told[-1] == (f"the log is not complete: {said}. Read it later with `launcher logs job`")
    summary = job.summary()
    assert summary["exit_code"] == 1
    assert said in summary["logs_refused"]
    assert "the disk is full" in summary["failure_reason"]


@pytest.mark.usefixtures("hurried")
def test_logs_that_never_answer_delay_no_end():
    answer = threading.Event()
    answered = []  # before a follower that is not hurried would go on without: after 30 s
    told, cloud = [], Cloud(*[RUNS] * 5, ENDS, logs=lambda: answered.append(answer.wait(25)))
    try:
        assert Job(NAME, cloud).wait(print, notices=told.append).status == "Failed"
        assert not answered
    finally:
        answer.set()
    assert "the logs were not read to their end" in told[-1]


def test_a_summary_of_an_ended_job_waits_for_no_log_that_never_answers(monkeypatch):
    monkeypatch.setattr(job, "_OUTCOME_SECONDS", 0.2)
    answer = threading.Event()
    asked = []

    def logs():
        asked.append(1)
        answer.wait(60)

    try:
        summary = Job(NAME, Cloud(ENDS, logs=logs)).summary()
    finally:
        answer.set()
    assert "no answer" in summary["logs_refused"]
    assert summary["failure"]["cause"] == "the disk is full"
    assert len(asked) == 1, "the cause asks no log again that has just not answered"


def test_a_summary_reads_a_slow_log_to_its_end(monkeypatch):
    """Its time is over again and again, each time after an answer: two reads have begun since."""
    begun, over = [], []
    lines = [Printed(stream=f"algo-{at}-1", at=at, seen=0, text="line") for at in range(1, 9)]

    class Outcomes(SimpleQueue):
        def get(self, block=True, timeout=None):
            before = len(begun)
            while True:
                with suppress(Empty):
                    return super().get(timeout=0.01)
                if len(begun) >= before + 2:
                    over.append(timeout)
                    raise Empty

    class Slow(Cloud):
        def read_log(self, job_name, stream, position=None, limit=10_000):
            begun.append(stream)
            time.sleep(0.05)
            return super().read_log(job_name, stream, position, limit)

    monkeypatch.setattr(background_log, "SimpleQueue", Outcomes)
    assert Job(NAME, Slow(ENDS, lines=lines)).summary()["logs_refused"] is None
    assert over


def test_a_stream_that_vanishes_hides_no_other_host_and_is_named():
    lines = [
        Printed(stream=f"algo-{host}-1", at=host, seen=0, text=f"of {host}") for host in (1, 2)
    ]

    class Vanishing(Cloud):
        def read_log(self, job_name, stream, position=None, limit=10_000):
            if stream == "algo-1-1":
                raise LogNotFound("no log stream algo-1-1", code="ResourceNotFoundException")
            return super().read_log(job_name, stream, position, limit)

    read, told = [], []
    Job(NAME, Vanishing(RUNS, RUNS, ENDS, lines=lines)).wait(read.append, notices=told.append)
    assert [line.text for line in read] == ["of 2"]
    assert "the log is not complete: no log stream algo-1-1" in told[-1]


def test_logs_that_come_back_are_complete():
    lines = [Printed(stream="algo-1-1", at=1, seen=0, text="kept")]
    errors = [Unreachable("AWS does not respond")] * 3
    gone = threading.Event()

    def logs():
        if errors:
            raise errors.pop()
        gone.set()

    class Patient(Cloud):
        def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
            if len(self._acts) == 1:
                assert gone.wait(60)
            return super().describe_training_job(TrainingJobName=TrainingJobName)

    read, told = [], []
    cloud = Patient(RUNS, RUNS, ENDS, logs=logs, lines=lines)
    Job(NAME, cloud).wait(read.append, notices=told.append)
    assert [line.text for line in read] == ["kept"]
    assert not any("not complete" in each for each in told)


class Denying(Cloud):
    """Denies its job the next `denials` times, once so many descriptions were given."""

    def __init__(self, *acts, after, denials):
        super().__init__(*acts)
        self._after, self._denials = after, denials

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        if self.descriptions >= self._after and self._denials:
            self._denials -= 1
            raise JobNotFound(f"SageMaker has no training job {TrainingJobName!r}")
        return super().describe_training_job(TrainingJobName=TrainingJobName)


CREATED = datetime.now(timezone.utc) - timedelta(seconds=230)


@pytest.mark.parametrize(
    ("created", "after"),
    [pytest.param(CREATED, 0, id="just created"), pytest.param(None, 1, id="described before")],
)
@pytest.mark.usefixtures("hurried")
def test_a_known_job_that_is_denied_for_a_while_is_followed(created, after):
    job = Job(NAME, Denying(RUNS, RUNS, ENDS, after=after, denials=2), created=created)
    assert job.wait().status == "Failed"


@pytest.mark.parametrize(
    ("created", "after"),
    [pytest.param(CREATED, 0, id="just created"), pytest.param(None, 1, id="described before")],
)
@pytest.mark.usefixtures("hurried")
def test_a_known_job_that_stays_denied_is_no_unknown_job(created, after):
    job = Job(NAME, Denying(RUNS, RUNS, ENDS, after=after, denials=1000), created=created)
    with pytest.raises(CloudError, match="was accepted, but now the answer is") as raised:
        job.wait()
    assert raised.value.exit_code == 4


def test_an_unknown_job_is_not_waited_for():
    with pytest.raises(JobNotFound):
        Job(NAME, Denying(RUNS, after=0, denials=1000)).wait()


@pytest.mark.usefixtures("hurried")
def test_the_answer_about_an_older_job_of_the_name_is_none():
    older = Cloud(ENDS)
    with pytest.raises(CloudError, match="the answer is about an older job of this name"):
        Job(NAME, older, created=datetime.now(timezone.utc) + timedelta(minutes=10)).wait()


@pytest.mark.usefixtures("hurried")
def test_an_older_answer_after_the_end_changes_no_outcome():
    class Forgetful(Cloud):
        def describe_training_job(self, *, TrainingJobName) -> TrainingJobDescription:  # noqa: N803
            is_old = self.descriptions >= 2
            now = super().describe_training_job(TrainingJobName=TrainingJobName)
            return now | {"TrainingJobStatus": "InProgress"} if is_old else now

    job = Job(NAME, Forgetful(RUNS, ENDS))
    job.wait()
    assert job.summary()["exit_code"] == 1
