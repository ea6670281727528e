"""launcher exec: entering a running host."""

import os
import signal
import sys
from pathlib import Path

import pytest
from captured_screen import Typist
from waiting import wait_until

FOR_EVER = "import time\nprint('waits', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def running(terminal):
    """A job that waits until the test ends."""
    job = terminal.write(FOR_EVER)
    terminal("run", job, "--local", "-d", "--name", "job-1")
    wait_until(lambda: "waits" in terminal("logs", "job-1").stdout)
    yield terminal
    terminal("stop", "job-1")
    terminal("wait", "job-1")


def test_exec_has_the_output_the_code_and_the_options_of_its_command(running):
    process = running.start("exec", "job-1", "--", "sh", "-c", "ls; echo oops >&2; exit 3")
    output, errors = process.communicate(timeout=540)
    assert (process.returncode, errors) == (3, "oops\n")
    assert "train.py" in output.split()

    process = running.start("exec", "job-1", "--host", "algo-1", "--", "echo", "--host", "x")
    assert process.communicate(timeout=540)[0] == "--host x\n"

    refused = running("exec", "job-1", "--host", "algo-2", "--", "ls")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: job job-1 has no host 'algo-2': use one of algo-1\n",
    )
    assert running("exec", "job-2", "--", "ls").exit_code == 2


@pytest.mark.long
def test_a_command_that_is_killed_has_the_code_of_a_shell(running):
    process = running.start("exec", "job-1", "--", "sh", "-c", "echo in; sleep 600")
    running.wait_for(process.stdout, "in")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    os.kill(int(children), signal.SIGKILL)
    assert process.wait(timeout=540) == 137
    process.stdout.close()
    process.stderr.close()


def test_a_shell_on_a_terminal_survives_ctrl_c(running):
    person = Typist([sys.executable, "-m", "launcher", "exec", "job-1"], running.environment)
    # one program, so that Ctrl-C does not come between two
    person.type("sh -c 'echo $((40 + 2)) $TRAINING_JOB_NAME; exec sleep 600'\n")
    person.wait_for("42 job-1")
    person.type("\x03")
    person.type("echo after $(( 1 + 1 ))\n")
    person.wait_for("after 2")
    person.type("exit 4\n")
    assert person.leave() == 4
    assert '"InProgress"' in running("status", "job-1", "-o", "json").stdout
