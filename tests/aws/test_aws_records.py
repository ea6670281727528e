"""The records of jobs on AWS: on the machine that sent them, without their secrets."""

import json

import pytest

from launcher.client.jobs.job import Job
from launcher.client.sessions.recorded_job import restore_job
from launcher.client.spec import JobSpec
from launcher.client.submit import JobOrigin, draft_job
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
