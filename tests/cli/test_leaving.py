"""Leaving a job, coming back to it, and ending it: --detach, Ctrl-C, stop, interrupt."""

import json
import os
import signal

import pytest

#: Saves where it was when it is asked to end.
COUNTS = """\
import os, pathlib, signal, sys, time
folder = os.environ.get("LAUNCHER_CHECKPOINT_DIR", os.environ["SM_MODEL_DIR"])
saved = pathlib.Path(folder, "count")
count = int(saved.read_text()) if saved.exists() else 0
def leave(*_):
    saved.write_text(str(count + 1))
    pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("waiting with", count, flush=True)
while count < int(sys.argv[2]):
    time.sleep(0.05)
"""
FOR_EVER = "hyperparameters: {until: 99}\n"
SPOT = """\
hyperparameters: {until: 1}
use_spot_instances: true
max_wait: 90000
checkpoint_s3_uri: s3://my-bucket/digits
"""


@pytest.fixture
def following(terminal):
    """A `launcher run` that follows a job whose host waits for its end."""
    job = terminal.write(COUNTS, terminal.one_host + FOR_EVER)
    process = terminal.start("run", job, "--local", "--name", "job-1")
    terminal.wait_for(process.stderr, "| waiting")
    yield process
    terminal("stop", "job-1")
    process.kill()
    process.communicate()


def status_of(terminal, name="job-1"):
    return json.loads(terminal("status", name, "-o", "json").stdout)


def test_detaching_at_once(terminal):
    job = terminal.write(COUNTS, terminal.one_host + FOR_EVER)
    result = terminal("run", job, "--local", "--name", "job-1", "--detach")
    assert result.exit_code == 0
    assert result.stdout == "job-1\n"
    assert "launcher logs -f job-1" in result.stderr
    assert status_of(terminal)["status"] == "InProgress"

    terminal("stop", "job-1")
    terminal("logs", "-f", "job-1")
    assert status_of(terminal)["status"] == "Stopped"


@pytest.mark.long
def test_ctrl_c_leaves_the_job_running_and_prints_how_to_return(terminal, following):
    following.send_signal(signal.SIGINT)
    stdout, stderr = following.communicate(timeout=540)
    assert following.returncode == 0
    assert stdout == "job-1\n"
    assert "launcher logs -f job-1" in stderr
    assert status_of(terminal)["status"] == "InProgress"

    follower = terminal.start("logs", "-f", "job-1")
    terminal.wait_for(follower.stdout, "| waiting")
    terminal("stop", "job-1")
    follower.communicate(timeout=540)
    assert follower.returncode == 3
    assert terminal("status", "job-1").exit_code == 3


@pytest.mark.long
def test_ctrl_c_twice_stops_the_job_and_shows_its_end(terminal, following):
    following.send_signal(signal.SIGINT)
    terminal.wait_for(following.stderr, "Ctrl-C again")
    following.send_signal(signal.SIGINT)
    stdout, _ = following.communicate(timeout=540)
    assert following.returncode == 3
    assert "Stopped" in stdout
    assert status_of(terminal)["model_artifacts"], "the script's handler ran"


@pytest.mark.long
def test_a_third_ctrl_c_leaves_a_job_that_is_being_stopped(terminal, following):
    following.send_signal(signal.SIGINT)
    terminal.wait_for(following.stderr, "Ctrl-C again")
    following.send_signal(signal.SIGINT)
    terminal.wait_for(following.stderr, "Stopping job job-1")
    following.send_signal(signal.SIGINT)
    stdout, stderr = following.communicate(timeout=540)
    assert following.returncode == 3
    assert stdout == ""
    assert "job job-1 was stopped (Stopping)" in stderr
    terminal("logs", "-f", "job-1")
    assert status_of(terminal)["status"] == "Stopped"


@pytest.mark.long
def test_ctrl_c_while_the_job_is_created_leaves_it_running(terminal):
    job = terminal.write(COUNTS, terminal.one_host + FOR_EVER)
    process = terminal.start("run", job, "--local", "--name", "job-1", "-o", "json")
    code = terminal.home / "storage" / "job-1" / "code"
    while not code.exists():  # it is uploaded before the job is created
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=540)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["status"] == "InProgress"
    assert "Detached; job job-1 continues" in stderr
    assert status_of(terminal)["status"] == "InProgress"
    terminal("stop", "job-1")
    terminal("logs", "-f", "job-1")


@pytest.mark.long
def test_a_follower_that_is_killed_leaves_the_job_alone(terminal, following):
    os.kill(following.pid, signal.SIGKILL)
    following.wait()
    assert status_of(terminal)["status"] == "InProgress"


@pytest.mark.long
def test_an_interrupted_job_resumes_from_its_checkpoint(terminal):
    job = terminal.write(COUNTS, terminal.one_host + SPOT)
    process = terminal.start("run", job, "--local", "--name", "job-1")
    terminal.wait_for(process.stderr, "| waiting with 0")
    assert terminal("stop", "--spot", "job-1").exit_code == 0
    terminal.wait_for(process.stderr, "[Interrupted]")
    terminal.wait_for(process.stderr, "| waiting with 1")
    process.communicate(timeout=540)
    assert process.returncode == 0
    assert status_of(terminal)["interruptions"] == 1
    kept = terminal.home / "storage" / "checkpoints" / "my-bucket" / "digits" / "count"
    assert kept.read_text() == "1"


@pytest.mark.long
def test_a_job_without_spot_instances_is_not_interrupted(terminal, following):
    result = terminal("stop", "--spot", "job-1")
    assert result.exit_code == 2
    assert "use_spot_instances: true" in result.stderr
    assert status_of(terminal)["status"] == "InProgress"
