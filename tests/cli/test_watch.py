"""launcher status --watch: the state of a job, live, without what its programs print."""

import json
import sys

import pytest
from captured_screen import capture

LAUNCHER = [sys.executable, "-m", "launcher"]
#: Runs until the folder's file exists, then ends with a code.
TRAIN = """\
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path("FILE").exists():
    time.sleep(0.05)
sys.exit(CODE)
"""


@pytest.fixture
def started(terminal):
    """Start a job that runs until `terminal.folder.parent / "enough"` exists."""

    def start(code):
        file = terminal.folder.parent / "enough"
        script = TRAIN.replace("FILE", str(file)).replace("CODE", str(code))
        options = ("--local", "--isolation", "process", "--detach", "--name", "job-1")
        result = terminal("run", terminal.write(script), *options)
        assert result.exit_code == 0, result.stderr
        return file

    return start


@pytest.mark.long
def test_it_redraws_and_ends_with_the_job(terminal, started):
    file = started(code=3)

    def is_seen(text):
        if "Training" in text and "1 host" in text:
            file.touch()  # the job ends once its state was seen
        return False

    shown = capture(
        [*LAUNCHER, "status", "job-1", "--watch"],
        columns=80,
        environment={**terminal.environment, "TERM": "xterm-256color"},
        interrupt_at=is_seen,
    )
    assert shown.code == 1
    assert shown.screen.unknown == []
    assert any(any(line.startswith("Training  ") for line in state) for state in shown.states)
    assert shown.lines[0] == "Job      job-1"
    assert "Status   Failed" in shown.lines
    assert not any("begun" in line for state in shown.states for line in state if "|" in line)


@pytest.mark.long
def test_ctrl_c_ends_the_view_and_not_the_job(terminal, started):
    file = started(code=0)
    shown = capture(
        [*LAUNCHER, "status", "job-1", "--watch"],
        columns=80,
        environment={**terminal.environment, "TERM": "xterm-256color"},
        interrupt_at=lambda text: "Training" in text,
    )
    assert shown.code == 0
    assert shown.lines[0] == "Detached; job job-1 continues."
    assert json.loads(terminal("status", "job-1", "-o", "json").stdout)["exit_code"] is None
    file.touch()
    assert terminal("wait", "job-1").exit_code == 0


@pytest.mark.long
def test_without_a_terminal_it_prints_lines(terminal, started):
    file = started(code=0)
    with terminal.start("status", "job-1", "--watch", "-o", "json") as watching:
        terminal.wait_for(watching.stderr, "[Training] after ")
        file.touch()
        stdout, stderr = watching.communicate(timeout=120)
    assert watching.returncode == 0
    assert json.loads(stdout)["status"] == "Completed"
    assert "[Completed] after " in stderr
    assert "begun" not in stderr
    again = terminal("status", "job-1", "--watch")  # a job that has ended is shown at once
    assert again.exit_code == 0
    assert again.stderr == ""
    assert "Completed" in again.stdout
