"""launcher rerun: a job again, from its record and the code that it was sent with."""

import json
import shutil
from importlib import import_module

import pytest

from launcher import JobSpec, MemorySession, Tracking
from launcher.client.cli import JobSender
from launcher.client.sessions import JobOrigin, new_record
from launcher.errors import NotSent

TRAIN = """\
import os, pathlib, sys
import near
print(near.WORD, os.environ["TOKEN"], *sys.argv[1:])
"""
PARAMETERS = "hyperparameters: {epochs: 3}\ndependencies: [../beside/near.py]\n"


@pytest.fixture
def ran(terminal):
    """A job that has ended, and whose folder has other code since."""
    beside = terminal.folder.parent / "beside"
    beside.mkdir()
    (beside / "near.py").write_text("WORD = 'before'\n")
    job = terminal.write(TRAIN, terminal.one_host + PARAMETERS)
    options = ("--local", "--isolation", "process", "--name", "job-1", "--env", "TOKEN=geheim")
    result = terminal("run", job, *options)
    assert result.exit_code == 0, result.stderr
    (beside / "near.py").write_text("WORD = 'after'\n")
    terminal.write("raise SystemExit(1)")
    return terminal


def printed(terminal, name):
    (line,) = terminal("logs", name).stdout.splitlines()
    return line.partition(" | ")[2]


@pytest.mark.long
def test_the_same_job_runs_again_with_the_code_of_then(ran):
    result = ran("rerun", "job-1", "-o", "json")
    assert result.exit_code == 0, result.stderr
    again = json.loads(result.stdout)
    assert again["name"].startswith("project-train-")
    assert printed(ran, again["name"]) == printed(ran, "job-1") == "before geheim --epochs 3"
    assert again["record"]["rerun_of"] == "job-1"
    assert again["record"]["command_line"] == ["launcher", "rerun", "job-1", "-o", "json"]
    assert "(isolation: process)" in result.stderr
    shown = ran("status", again["name"], "-v").stdout
    assert "\nRepeats  job-1\n" in shown
    assert "\nEnviron  TOKEN\n" in shown
    assert "geheim" not in json.dumps(again)

    shutil.rmtree(ran.folder)  # nor is the folder needed, and a repeated job can be repeated
    options = ("--name", "job-3", "--set", "hyperparameters.epochs=5", "--detach")
    third = ran("rerun", again["name"], *options)
    assert third.stdout == "job-3\n", third.stderr
    assert ran("wait", "job-3").exit_code == 0
    assert printed(ran, "job-3") == "before geheim --epochs 5"


@pytest.mark.long
def test_what_its_record_lacks_is_refused_with_the_reason(ran):
    used = ran("rerun", "job-1", "--name", "job-1")
    assert used.exit_code == 2
    assert "was used for a job before" in used.stderr
    wrong = ran("rerun", "job-1", "--set", "hyperparameter.epochs=5")
    assert wrong.exit_code == 2
    assert 'did you mean "hyperparameters"?' in wrong.stderr

    shutil.rmtree(ran.home / "storage" / "job-1")
    gone = ran("rerun", "job-1")
    assert gone.exit_code == 2
    assert "job job-1 cannot be repeated: its code is gone: " in gone.stderr

    (ran.home / "jobs" / "job-1" / "record.json").unlink()
    older = ran("rerun", "job-1")
    assert older.exit_code == 2
    assert "job job-1 cannot be repeated: it has no record: an older Launcher" in older.stderr
    assert "fix: run its job file: launcher run JOB_FILE" in older.stderr
    assert len(ran("list").stdout.splitlines()) == 2


def test_paths_of_changes_count_from_the_current_folder(terminal, tmp_path, monkeypatch):
    spec = JobSpec(
        image_uri="image",
        container_entry_point=("true",),
        instance_type="local",
        inputs={"dogs": "file:///dogs"},
    )
    record = new_record(spec, JobOrigin(), "")
    job_file = tmp_path / "job-1.json"
    job_file.write_text(json.dumps(record.to_plain()))
    session = MemorySession()
    session.describe_training_job = lambda **_: {}
    session.record_file = lambda _: job_file
    session.session_as_of = lambda _: session
    drafts = []

    def draft(_sender, spec, name):
        drafts.append(spec)
        raise NotSent(name)

    monkeypatch.setattr(JobSender, "draft", draft)
    monkeypatch.setattr(
        import_module("launcher.client.cli.verbs.rerun"), "session_of", lambda *_: session
    )
    monkeypatch.chdir(tmp_path)
    changes = ("inputs.cats=file://cats", "output_path=file://results", "tracking.tensorboard=runs")
    terminal("rerun", "job-1", *(word for change in changes for word in ("--set", change)))
    (sent,) = drafts
    assert sent.uris == {
        "output_path": f"file://{tmp_path}/results",
        "inputs.dogs.s3_data": "file:///dogs",
        "inputs.cats.s3_data": f"file://{tmp_path}/cats",
    }
    assert sent.tracking == Tracking(tensorboard=f"{tmp_path}/runs")


def test_a_job_that_does_not_exist_is_not_repeated(terminal):
    assert terminal("rerun", "nothing").exit_code == 2
