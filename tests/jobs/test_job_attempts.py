"""The attempts at a job: what is tried next after which end, under which name, and when it ends."""

from itertools import islice
from pathlib import Path

import pytest

from launcher import (
    CapacityError,
    Estimator,
    InstanceGroup,
    Job,
    LocalSession,
    MemoryRun,
    MemorySession,
    Retry,
)
from launcher.client.planning import attempt_names, run_attempts, type_combinations
from launcher.client.spec import JobSpec
from launcher.client.submit import draft_job
from launcher.shared import end_cause

REASON = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type."
)
GROUPS = (
    InstanceGroup("data", "ml.c5.xlarge", 1, alternatives=("ml.c6i.xlarge",)),
    InstanceGroup("train", "ml.g5.xlarge", 1, alternatives=("ml.g6.xlarge", "ml.g4dn.xlarge")),
)
C5, C6 = "ml.c5.xlarge", "ml.c6i.xlarge"
G5, G6, G4 = "ml.g5.xlarge", "ml.g6.xlarge", "ml.g4dn.xlarge"


def spec(**fields):
    return JobSpec(entry_point="train.py", **{"instance_groups": GROUPS, **fields})


def test_every_choice_of_types_once_and_the_wishes_first():
    assert [tuple(types.values()) for types in type_combinations(spec())] == [
        (C5, G5), (C5, G6), (C6, G5), (C5, G4), (C6, G6), (C6, G4),
    ]  # fmt: skip


def test_a_job_without_groups_has_one_choice():
    assert type_combinations(spec(instance_groups=(), instance_type=G5, instance_count=1)) == [{}]


STARTING, TRAINING, INTERRUPTED = "Starting", "Training", "Interrupted"
#: Ends of jobs: the reason, the states, and the cause of a restart; TimeUp is MaxWaitTimeExceeded.
ENDS = {
    "no instances": (REASON, [STARTING], "out_of_capacity"),
    "no instances, after it trained": (REASON, [STARTING, TRAINING], None),
    "a host died": ("host algo-2 (train): the host died", [TRAINING], "host_lost"),
    "SIGKILL of a host": ("host algo-2 (train): killed by SIGKILL", [TRAINING], "host_lost"),
    "a host is cut off": (
        "host algo-2 (train): it does not answer any more: its network is cut, or the instance is "
        "lost",
        [TRAINING],
        "host_lost",
    ),
    "AWS's own error": (
        "InternalServerError: We encountered an internal error. Please try again.",
        [TRAINING],
        "host_lost",
    ),
    "SIGKILL of a rank": (
        "host algo-1 (train), rank 0: killed by SIGKILL (memory was not short: 1.0 of 23.0 GiB in "
        "use)",
        [TRAINING],
        None,
    ),
    "SIGKILL of a program": (
        "host algo-1 (data): killed by SIGKILL (memory was not short: 1.0 of 23.0 GiB in use)",
        [TRAINING],
        None,
    ),
    "an exception": (
        "AlgorithmError: host algo-1 (train), rank 0: ValueError: x, exit code: 1",
        [TRAINING],
        None,
    ),
    "the leader is lost": (
        "host algo-2 (train): the leader algo-1 does not answer any more: timed out",
        [TRAINING],
        "host_lost",
    ),
    "an exception in words of a loss": (
        "host algo-1 (train), rank 0: ValueError: the host died",
        [TRAINING],
        None,
    ),
    "sys.exit": (
        "host algo-1 (train), rank 0: the script called sys.exit(75)\nthe host died",
        [TRAINING],
        75,
    ),
    "a container of one's own": ("AlgorithmError: no luck, exit code: 75", [TRAINING], 75),
    "interrupted for too long": ("TimeUp", [STARTING, TRAINING, INTERRUPTED], "spot"),
    "too slow for its max_wait": ("TimeUp", [STARTING, TRAINING], None),
    "stopped": ("Stopped", [STARTING, TRAINING], None),
}


@pytest.mark.parametrize(("reason", "states", "cause"), ENDS.values(), ids=ENDS)
def test_an_end_has_one_cause(reason, states, cause):
    state = {"TimeUp": "MaxWaitTimeExceeded", "Stopped": "Stopped"}.get(reason, "Failed")
    description = {
        "TrainingJobStatus": "Failed" if state == "Failed" else "Stopped",
        "SecondaryStatus": state,
        "SecondaryStatusTransitions": [{"Status": each} for each in (*states, state)],
        **({"FailureReason": reason} if state == "Failed" else {}),
    }
    assert end_cause(description) == cause


class Scarce(LocalSession):
    """This machine, as if it were AWS where some types are not to be had.

    refused: types for which no job is created; missing: types whose jobs fail before they train.
    """

    refused: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def create_training_job(self, **request):
        if self._wants(request, self.refused):
            raise CapacityError("InsufficientCapacityException: none left\n  fix: wait")
        return super().create_training_job(**request)

    def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
        now = super().describe_training_job(TrainingJobName=TrainingJobName)
        if not self._wants(now, self.missing):
            return now
        states = [{**now["SecondaryStatusTransitions"][0], "Status": "Failed"}]
        failed = {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed"}
        return {**now, **failed, "FailureReason": REASON, "SecondaryStatusTransitions": states}

    @staticmethod
    def _wants(request, types):
        groups = request["ResourceConfig"]["InstanceGroups"]
        return any(group["InstanceType"] in types for group in groups)


@pytest.fixture
def scarce(tmp_path):
    return Scarce(tmp_path / "home", isolation="process")


class ScarceMemory(MemorySession):
    """As if it were AWS where no job is created for some types."""

    refused: tuple[str, ...] = ()

    def create_training_job(self, **request):
        (group,) = request["ResourceConfig"]["InstanceGroups"]
        if group["InstanceType"] in self.refused:
            raise CapacityError("InsufficientCapacityException: none left\n  fix: wait")
        return super().create_training_job(**request)


def estimator(tmp_path: Path, session, **arguments):
    group = InstanceGroup("train", G5, 1, alternatives=(G6, G4))
    return script_job(tmp_path, session, group, **arguments)


def script_job(tmp_path: Path, session, group, **arguments):
    (tmp_path / "train.py").write_text("print('trained')\n")
    return Estimator(
        entry_point="train.py",
        source_dir=str(tmp_path),
        instance_groups=[group],
        sagemaker_session=session,
        **arguments,
    )


@pytest.mark.long
def test_the_next_type_is_tried_under_a_new_name_and_told(tmp_path, scarce, capsys):
    scarce.refused, scarce.missing = (G5,), (G6,)
    trainer = estimator(tmp_path, scarce)
    job = trainer.fit(job_name="rings", logs=False)
    assert job.name == "rings-3"
    assert trainer.latest_training_job is job
    (group,) = job.description()["ResourceConfig"]["InstanceGroups"]
    assert group["InstanceType"] == G4
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "(job rings got no instances: InsufficientCapacityException: none left)",
        "(trying train: ml.g6.xlarge, choice 2 of 3: job rings-2)",
        f"(job rings-2 got no instances: {REASON.rstrip('.')})",
        "(trying train: ml.g4dn.xlarge, choice 3 of 3: job rings-3)",
    ]


def test_names_of_other_jobs_are_not_those_of_attempts(tmp_path):
    session = MemorySession()
    for name in ("rings", "rings-2", "rings-4"):
        script_job(tmp_path, session, InstanceGroup("train", G5, 1)).fit(job_name=name, logs=False)
    assert list(islice(attempt_names("rings", session), 4)) == [
        "rings", "rings-3", "rings-5", "rings-6",
    ]  # fmt: skip


def test_the_next_type_is_tried_although_another_job_has_the_next_name(tmp_path):
    session = ScarceMemory()
    group = InstanceGroup("train", G5, 1, alternatives=(G6,))
    trainer = script_job(tmp_path, session, group)
    trainer.fit(job_name="rings-2", logs=False)
    session.refused = (G5,)
    assert trainer.fit(job_name="rings", logs=False).name == "rings-3"
    assert list(session.requests) == ["rings-2", "rings-3"]


def test_after_the_last_choice_it_is_waited_as_the_job_says(tmp_path):
    session = MemorySession()
    retry = Retry(attempts=3, on=["out_of_capacity"], backoff=7)
    job_spec = estimator(tmp_path, session, retry=retry).spec
    paused, tried, told = [], [], []

    def create(attempt):
        tried.append((attempt.name, attempt.spec.instance_groups[0].instance_type))
        raise CapacityError("none left")

    with pytest.raises(CapacityError, match="was tried 9 times and got no instances"):
        run_attempts(
            job_spec, "r" * 63, session, create, print, notify=told.append, sleep=paused.append
        )
    assert paused == [0, 0, 7, 0, 0, 14, 0, 0]
    assert [kind for _name, kind in tried] == [G5, G6, G4] * 3
    assert [name[-3:] for name, _kind in tried] == ["rrr", *(f"r-{n}" for n in range(2, 10))]
    assert told[5] == f"trying again, attempt 2 of 3, in 7s: job {'r' * 61}-4"


class Client:
    """A client of a job of three attempts, which ends with exit code 75 but for the third time."""

    def __init__(self, tmp_path, session, follow=Job.wait, sleep=lambda seconds: None):
        group = InstanceGroup("train", G5, 1)
        retry = Retry(attempts=3, on=[{"exit": [75]}], backoff=600)
        kept = "memory://bucket/kept"
        self.trainer = script_job(tmp_path, session, group, retry=retry, checkpoint_s3_uri=kept)
        self.session, self.follow, self.sleep = session, follow, sleep
        self.told, self.made = [], []

    def run(self):
        first = draft_job(self.trainer.spec, self.session, "rings").spec
        return run_attempts(
            first, "rings", self.session, self.create, self.follow,
            notify=self.told.append, sleep=self.sleep,
        )  # fmt: skip

    def create(self, attempt):
        self.made.append(attempt.name)
        return draft_job(attempt.spec, self.session, attempt.name).send()


def ending(request):
    name = request["TrainingJobName"]
    return MemoryRun(failure=None if name == "rings-3" else "AlgorithmError: , exit code: 75")


class Recording(MemorySession):
    """A session whose jobs have records."""

    def __init__(self, tmp_path):
        super().__init__(ending)
        self.folder = tmp_path / "records"

    def record_file(self, job_name):
        return self.folder / f"{job_name}.json"

    def session_as_of(self, job_name):
        return self


@pytest.mark.parametrize("when", ["while it follows", "while it looks for a name"])
def test_a_client_goes_on_with_the_attempt_that_another_one_has_made(tmp_path, when):
    paused, runs = [], []

    def run_other():
        if not runs:
            runs.append(other)
            assert other.run().name == "rings-3"

    class Busy(Recording):
        def describe_training_job(self, *, TrainingJobName):  # noqa: N803 (AWS)
            if TrainingJobName == "rings-2" and when == "while it looks for a name":
                run_other()
            return super().describe_training_job(TrainingJobName=TrainingJobName)

    def follow(job):
        job.wait()
        if when == "while it follows":
            run_other()

    session = Busy(tmp_path)
    other = Client(tmp_path, session)
    client = Client(tmp_path, session, follow, paused.append)
    assert client.run().name == "rings-3"
    assert list(session.requests) == ["rings", "rings-2", "rings-3"]
    assert (client.made, other.made) == (["rings"], ["rings-2", "rings-3"])
    assert paused == [0, 0]


def test_ctrl_c_in_a_pause_says_how_to_go_on_and_the_rest_of_the_pause_is_waited(tmp_path):
    session, paused = Recording(tmp_path), []

    def interrupt(seconds):
        raise KeyboardInterrupt

    client = Client(tmp_path, session, sleep=interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.run()
    assert client.told[-1] == "job rings-2 is not sent: run the same job as rings again to go on"
    again = Client(tmp_path, session, sleep=paused.append)
    assert again.run().name == "rings-3"
    assert again.made == ["rings-2", "rings-3"]
    assert 500 < paused[0] <= 600
    assert paused[1] == 1200


@pytest.mark.long
def test_without_a_second_choice_it_is_an_error_of_its_own(tmp_path, scarce):
    scarce.missing = (G5, G6, G4)
    with pytest.raises(CapacityError, match="tried 3 times") as raised:
        estimator(tmp_path, scarce).fit(logs=False)
    assert raised.value.exit_code == 5


@pytest.mark.long
def test_a_job_left_at_once_warns_that_no_other_type_is_tried(tmp_path, scarce):
    with pytest.warns(UserWarning, match="have no effect without waiting"):
        job = estimator(tmp_path, scarce).fit(logs=False, wait=False)
    assert job.wait().status == "Completed"
