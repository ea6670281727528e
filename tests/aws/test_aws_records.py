"""The records of jobs on AWS: on the machine that sent them, without their secrets."""

import json
import shutil

import pytest
from cut_model import PARTITION
from stored_bytes import stored_bytes

from launcher.client.jobs import Job
from launcher.client.sessions import JobOrigin, restore_job
from launcher.client.spec import JobSpec, ModelParallel, Toolkit
from launcher.client.submit import draft_job
from launcher.errors import PlatformError


@pytest.fixture
def sent(session, spec):
    """A job on AWS, sent from here."""
    origin = JobOrigin(command_line=("launcher", "run"))
    return draft_job(spec.replace(instance_count=2), session, "job-1", origin=origin).send()


def test_a_job_is_recorded_on_the_machine_that_sent_it(sent, session, tmp_path):
    assert sent.record().command_line == ["launcher", "run"]
    file = tmp_path / "home" / "records" / "aws" / "eu-west-1" / "job-1.json"
    assert json.loads(file.read_text())["variables"] == []
    assert Job("job-2", session).record() is None


@pytest.mark.long
def test_it_is_restored_with_its_code(sent, session, spec, tmp_path):
    (tmp_path / "source" / "train.py").write_text("raise SystemExit(1)\n")
    folder = tmp_path / "again"
    folder.mkdir()
    restored = restore_job("job-1", session, folder)
    again = JobSpec.from_yaml(restored.job_file)
    assert again.source_dir == str(folder / "source" / "source")
    assert (folder / "source" / "source" / "train.py").read_text() == "print('hello')\n"
    draft = draft_job(again, restored.session, "job-2")
    old = json.loads(session.record_file("job-1").read_text())
    draft.send()
    new = json.loads(session.record_file("job-2").read_text())
    assert new["job"] == old["job"]


def _lone_script(spec, folder):
    return spec.replace(source_dir=None, entry_point=f"{folder}/source/train.py")


def _with_dependencies(spec, folder):
    (folder / "near").mkdir()
    (folder / "near" / "code.py").write_text("# near")
    return spec.replace(dependencies=(str(folder / "near"),))


def _cut_model(spec, folder):
    (folder / "source" / "task.py").write_text("def make(): ...\n")
    PARTITION.write(folder / "cuts.json")
    return spec.replace(
        entry_point="",
        task="task:make",
        instance_type="ml.g5.12xlarge",
        distribution=ModelParallel(partition_file=str(folder / "cuts.json")),
    )


def _toolkit(spec, _folder):
    library = {"smdistributed": {"dataparallel": {"enabled": True}}}
    return spec.replace(
        instance_type="ml.p4d.24xlarge",
        framework="pytorch",
        distribution=Toolkit(strategies=library),
    )


def _no_script(spec, _folder):
    return spec.replace(source_dir=None, entry_point="", container_entry_point=("true",))


@pytest.mark.long
@pytest.mark.parametrize(
    "make", [_lone_script, _with_dependencies, _cut_model, _toolkit, _no_script]
)
def test_a_restored_job_sends_the_same_code(session, spec, tmp_path, make):
    first = draft_job(make(spec, tmp_path), session, "job-1")
    sent = stored_bytes(first.submission)
    first.send()
    shutil.rmtree(tmp_path / "source")
    folder = tmp_path / "again"
    folder.mkdir()
    restored = restore_job("job-1", session, folder)
    second = draft_job(JobSpec.from_yaml(restored.job_file), restored.session, "job-2")
    again = stored_bytes(second.submission)
    assert {uri.replace("job-2", "job-1"): each for uri, each in again.items()} == sent


def test_variables_whose_values_the_platform_does_not_return(session, spec, tmp_path):
    """So does moto; the token of a job of several hosts is made anew, and is not missed."""
    draft = draft_job(spec.replace(environment={"TOKEN": "geheim"}), session, "job-1")
    draft.send()
    assert "geheim" not in session.record_file("job-1").read_text()
    with pytest.raises(PlatformError, match="does not return the values of its variables TOKEN"):
        restore_job("job-1", session, tmp_path)


def test_a_job_of_another_machine_is_refused(sent, session, tmp_path):
    session.record_file("job-1").unlink()
    with pytest.raises(PlatformError, match="it has no record"):
        restore_job("job-1", session, tmp_path)
