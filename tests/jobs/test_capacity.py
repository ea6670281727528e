"""Jobs for which AWS has no instances: what is tried next, and when it ends."""

from itertools import islice
from pathlib import Path

import pytest

from launcher import CapacityError, Estimator, InstanceGroup, LocalSession, MemorySession
from launcher.client.planning import (
    attempt_names,
    capacity_shortage,
    next_attempt,
    retry_capacity,
    type_combinations,
)
from launcher.client.spec import CapacityRetry, JobSpec

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


@pytest.mark.parametrize(
    ("shortages", "types", "wait", "reason"),
    [
        (0, C5, 0, "trying again from the first choice, attempt 1 of 2"),
        (1, C6, 0, "trying data: ml.c6i.xlarge, choice 2 of 2"),
        (2, C5, 60, "trying again from the first choice, attempt 2 of 2"),
        (3, C6, 0, "trying data: ml.c6i.xlarge, choice 2 of 2"),
    ],
)
def test_all_choices_are_tried_before_anybody_waits(shortages, types, wait, reason):
    retry = CapacityRetry(attempts=2, wait_seconds=60)
    found = next_attempt([{"data": C5}, {"data": C6}], shortages, retry)
    assert (found.types["data"], found.wait_seconds, found.reason) == (types, wait, reason)


def test_the_last_shortage_is_the_end():
    assert next_attempt([{}], 10, CapacityRetry(attempts=10)) is None
    assert next_attempt([{"data": C5}, {"data": C6}], 2, None) is None


@pytest.mark.parametrize(
    ("status", "reason", "states", "is_one"),
    [
        pytest.param("Failed", REASON, ["Starting", "Failed"], True, id="none to be had"),
        pytest.param("Failed", REASON, ["Starting", "Training", "Failed"], False, id="it trained"),
        pytest.param("Failed", "AlgorithmError: no luck", ["Failed"], False, id="another reason"),
        pytest.param("InProgress", REASON, ["Starting"], False, id="not ended"),
    ],
)
def test_only_a_job_that_never_trained_lacked_instances(status, reason, states, is_one):
    changes = [{"Status": state} for state in states]
    description = {
        "TrainingJobStatus": status,
        "FailureReason": reason,
        "SecondaryStatusTransitions": changes,
    }
    assert capacity_shortage(description) == (reason if is_one else None)


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


def test_after_the_last_choice_it_is_waited_as_the_job_says(tmp_path, scarce):
    scarce.refused = (G5, G6, G4)
    retry = CapacityRetry(attempts=2, wait_seconds=7)
    job_spec = estimator(tmp_path, scarce, capacity_retry=retry).spec
    paused = []

    def none_left(_spec, _name):
        raise CapacityError("none left")

    names = attempt_names("r" * 63, scarce)
    with pytest.raises(CapacityError, match="was tried 6 times and got no instances"):
        retry_capacity(job_spec, names, none_left, notify=print, sleep=paused.append)
    assert paused == [0, 0, 7, 0, 0]


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
