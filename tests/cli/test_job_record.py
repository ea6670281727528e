"""What is recorded of each job, and shown by launcher status."""

import json
import platform
import stat
import subprocess
from importlib.metadata import version

import pytest

import launcher
from launcher import Estimator, LocalSession, MemorySession

PARAMETERS = "hyperparameters: {epochs: 3}\n"


def git(folder, *words):
    who = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    ran = subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def run_and_read(terminal, name, *options):
    job = terminal.write(job=terminal.one_host + PARAMETERS)
    result = terminal("run", job, "--local", "--name", name, *options, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(terminal("status", name, "-o", "json").stdout)["record"]


def test_a_job_has_a_record_without_the_values_of_variables(terminal):
    changes = ("--set", "hyperparameters.epochs=4", "--set", "environment.THIRD=geheim")
    values = ("--env", "TOKEN=geheim", "--env=OTHER=geheim")
    more = ("--set", "environment.FOURTH=geheim=geheim")
    record = run_and_read(terminal, "job-1", *changes, *values, *more)
    assert record["launcher"] == launcher.__version__
    assert record["python"] == platform.python_version()
    assert record["hyperparameters"] == {"epochs": 4}
    assert f"click=={version('click')}" in record["packages"]
    assert record["git"] is None
    assert record["rerun_of"] is None
    assert record["command_line"][:2] == ["launcher", "run"]
    assert record["command_line"][3:] == [
        *("--local", "--name", "job-1"),
        *("--set", "hyperparameters.epochs=4", "--set", "environment.THIRD=***"),
        *("--env", "TOKEN=***", "--env=OTHER=***", "--set", "environment.FOURTH=***"),
        *("-o", "json"),
    ]
    assert "geheim" not in json.dumps(record)
    file = terminal.home / "jobs" / "job-1" / "record.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.long
def test_the_commit_of_the_source_and_whether_files_differ_from_it(terminal):
    folder = terminal.write(job=terminal.one_host + PARAMETERS).parent
    git(folder, "init", "-q")
    assert run_and_read(terminal, "job-0")["git"] is None  # nothing is committed
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    commit = git(folder, "rev-parse", "HEAD")
    assert run_and_read(terminal, "job-1")["git"] == {"commit": commit, "is_dirty": False}
    (folder / "new.py").touch()
    assert run_and_read(terminal, "job-2")["git"] == {"commit": commit, "is_dirty": True}
    shown = terminal("status", "job-2", "-v").stdout
    assert f"\nCommit   {commit}, with uncommitted changes\n" in shown
    assert "\nParams   epochs = 3\n" in shown
    assert "\nCommand  launcher run " in shown
    assert f"\nLauncher {launcher.__version__}, Python " in shown
    assert f" click=={version('click')}" in shown
    assert "Commit" not in terminal("status", "job-2").stdout


@pytest.mark.long
def test_a_job_of_an_older_launcher_has_none(terminal):
    run_and_read(terminal, "job-1")
    file = terminal.home / "jobs" / "job-1" / "record.json"
    for content in ("", "[]", "{}", '{"version": 2}', '{"version": 1}'):
        file.write_text(content)
        assert json.loads(terminal("status", "job-1", "-o", "json").stdout)["record"] is None
    file.unlink()
    shown = terminal("status", "job-1", "-v")
    assert shown.exit_code == 0
    assert "No record of this job" in shown.stdout


@pytest.mark.long
def test_a_job_of_python_is_recorded_with_its_script(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("print('hello')\n")
    monkeypatch.setattr("sys.argv", ["submit.py", "--key", "geheim"])
    arguments = {
        "entry_point": "train.py",
        "instance_type": "local",
        "instance_count": 1,
        "source_dir": str(tmp_path),
    }
    session = LocalSession(tmp_path / "home")
    job = Estimator(sagemaker_session=session, **arguments).fit(logs=False)
    assert job.record().command_line == ["submit.py"]
    assert job.record().rerun_of is None
    other = Estimator(sagemaker_session=MemorySession(), **arguments).fit(logs=False)
    assert other.record() is None
