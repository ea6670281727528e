"""Waiting for a job: what is said, what is waited through, and that it always ends."""

import re
import time
from datetime import datetime, timedelta, timezone

import pytest
from printed import Printed, PrintedLog

from launcher import Estimator, Job, LocalSession
from launcher.client.jobs import (
    BackgroundLog,
    JobFollower,
    KnownJob,
    MergedLog,
    RetryingSession,
    StateChange,
)
from launcher.client.sessions import LOCAL_PLATFORM, SAGEMAKER
from launcher.errors import (
    CredentialsExpired,
    JobNotFound,
    JobStopped,
    Refused,
    StillRunning,
    Unreachable,
)


class Stage(PrintedLog):
    """A platform that is one description further with each pause."""

    def __init__(self, *acts, lines=(), delay=0.0):
        super().__init__(list(lines), delay)
        self._acts = list(acts)
        self._states = []
        self._start = datetime.now(timezone.utc) - timedelta(seconds=200)

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        self._may_fail()
        status, state = self._acts[0]
        if not self._states or self._states[-1]["Status"] != state:
            started = self._start + timedelta(seconds=60 * len(self._states))
            self._states.append({"Status": state, "StartTime": started})
        return {
            "TrainingJobName": "job",
            "TrainingJobStatus": status,
            "SecondaryStatus": state,
            "CreationTime": self._start,
            "LastModifiedTime": datetime.now(timezone.utc),
            "SecondaryStatusTransitions": list(self._states),
        }

    def pause(self, _seconds):
        self.now += 1
        if len(self._acts) > 1:
            self._acts.pop(0)


def watched(stage, notices, **options):
    return JobFollower(
        "job",
        KnownJob(stage, "job", None).describe,
        log=None,
        notices=notices,
        poll_seconds=0,
        sleep=stage.pause,
        **options,
    )


def words(events):
    return [event.word for event in events if isinstance(event, StateChange)]


def test_unknown_states_are_shown_and_waited_through():
    stage = Stage(
        ("InProgress", "Starting"),
        ("InProgress", "Defrosting"),
        ("Deleting", "Deleting"),
        ("Completed", "Completed"),
    )
    events = list(watched(stage, print).events())
    changes = [event for event in events if isinstance(event, StateChange)]
    assert words(events) == ["Starting", "Defrosting", "Deleting", "Completed"]
    assert str(changes[1]) == "[Defrosting] after 1m00s"


def test_a_quiet_job_is_reported_to_be_running():
    told = []
    stage = Stage(*[("InProgress", "Downloading")] * 3, ("Completed", "Completed"))
    list(watched(stage, told.append, idle_seconds=0).events())
    assert len(told) == 3
    assert all(re.fullmatch(r"still Downloading after 3m\d\ds", each) for each in told)


def test_lines_that_come_after_the_end_are_shown_before_the_last_state():
    ended = []

    class LiveStage(Stage):
        """Its line can be read by the real clock, as the follower waits for it: after the end."""

        now = property(lambda _: time.monotonic() - ended[0] if ended else 0.0, lambda *_: None)

        def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
            answer = super().describe_training_job(TrainingJobName=TrainingJobName)
            if answer["TrainingJobStatus"] == "Completed" and not ended:
                ended.append(time.monotonic())
            return answer

    late = Printed(stream="algo-1-1", at=0.01, seen=0.05, text="the last words")
    acts = ("InProgress", "Training"), ("Completed", "Completed")
    stage = LiveStage(*acts, lines=[late], delay=0.05)
    merged = MergedLog(stage, "job", {"algo-1": "train"}, clock=stage.clock)
    log = BackgroundLog(merged, 0.01, SAGEMAKER.is_transient)

    def pause(seconds):
        time.sleep(seconds)
        stage.pause(seconds)

    events = JobFollower(
        "job",
        KnownJob(stage, "job", None).describe,
        log=log,
        log_delay_seconds=stage.log_delay_seconds,
        notices=print,
        poll_seconds=0.01,
        sleep=pause,
    ).events()
    *_, line, last = events
    assert line.text == "the last words"
    assert last.word == "Completed"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unreachable("AWS does not answer"), id="network"),
        pytest.param(CredentialsExpired("ExpiredToken: renew them"), id="credentials"),
        pytest.param(Refused("Rate exceeded", code="ThrottlingException"), id="throttling"),
        pytest.param(Refused("Oops", code="ServiceUnavailable"), id="their fault"),
    ],
)
def test_transient_errors_are_waited_through_and_reported_once(error):
    told = []
    stage = Stage(("InProgress", "Training"), ("Completed", "Completed"))
    stage.fails = [error] * 3
    source = RetryingSession(
        KnownJob(stage, "job-1", None),
        "job-1",
        notify=told.append,
        sleep=stage.pause,
        give_up_seconds=60,
        is_transient=SAGEMAKER.is_transient,
    )
    watch = JobFollower(
        "job-1",
        source.describe,
        log=None,
        notices=told.append,
        poll_seconds=0,
        sleep=stage.pause,
    )
    assert words(watch.events())[-1] == "Completed"
    first, again = told
    assert str(error) in first
    assert "launcher logs -f job-1" in first
    assert again.startswith("the platform responds again")


def test_errors_that_do_not_pass_are_raised_at_once():
    stage = Stage(("InProgress", "Training"))
    for error in (Refused("no", code="AccessDeniedException"), JobNotFound("no such job")):
        stage.fails = [error]
        source = RetryingSession(
            KnownJob(stage, "job-1", None),
            "job-1",
            notify=print,
            give_up_seconds=60,
            is_transient=SAGEMAKER.is_transient,
        )
        with pytest.raises(type(error)):
            source.describe()


class Deaf(LocalSession):
    """This machine, which does not answer any more once `is_deaf`."""

    is_deaf = False

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        if self.is_deaf:
            raise Unreachable("AWS does not answer")
        return super().describe_training_job(TrainingJobName=TrainingJobName)


@pytest.fixture
def running_job(tmp_path):
    """A real job of this machine that waits for its end."""
    (tmp_path / "train.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    session = Deaf(tmp_path / "home", isolation="process", stop_grace_seconds=1)
    estimator = Estimator(
        entry_point="train.py",
        source_dir=str(tmp_path),
        instance_type="local",
        instance_count=1,
        sagemaker_session=session,
    )
    job = estimator.fit(wait=False, job_name="job-1")
    yield job
    session.is_deaf = False
    job.stop()
    job.wait()


@pytest.mark.long
def test_a_platform_that_stays_silent_ends_the_wait_and_not_the_job(running_job):
    running_job.session.is_deaf = True
    job = Job("job-1", running_job.session, give_up_seconds=0.5)
    told = []
    with pytest.raises(Unreachable, match=r"no response for .*AWS does not answer") as raised:
        job.wait(notices=told.append)
    assert "launcher logs -f job-1" in str(raised.value)
    assert len(told) == 1
    running_job.session.is_deaf = False
    assert running_job.status == "InProgress"


def test_a_wait_with_a_timeout_leaves_the_job(running_job):
    with pytest.raises(StillRunning, match="job-1 is still running after 1s, and continues"):
        running_job.wait(timeout=1)
    assert running_job.status == "InProgress"


@pytest.mark.long
def test_a_timeout_holds_while_the_service_does_not_respond(running_job):
    running_job.session.is_deaf = True
    with pytest.raises(StillRunning):
        running_job.wait(timeout=0.5)


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
