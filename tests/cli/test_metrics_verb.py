"""launcher metrics: a job's numbers over time, as a table, charts, JSON lines or CSV."""

import csv
import json
import sys

import pytest
from captured_screen import capture

JOB = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
metric_definitions: [{name: loss, regex: 'loss=(\\S+)'}]
"""
#: Ends once its host has told its use of CPU and memory, and the folder's file exists.
TRAIN = """\
import os, pathlib, time
print("loss=0.5", flush=True)
events = pathlib.Path(os.environ["LAUNCHER_EVENTS"])
while "host_usage" not in events.read_text() or not pathlib.Path("FILE").exists():
    time.sleep(0.05)
print("loss=0.25", flush=True)
"""


@pytest.fixture
def start(terminal):
    """Start the job; it runs until the returned file exists."""

    def start():
        file = terminal.folder.parent / "enough"
        job = terminal.write(TRAIN.replace("FILE", str(file)), JOB)
        options = ("--local", "--isolation", "process", "--detach", "--name", "job-1")
        result = terminal("run", job, *options)
        assert result.exit_code == 0, result.stderr
        return file

    return start


@pytest.mark.long
def test_a_local_job_in_each_form(terminal, start):
    start().touch()
    assert terminal("wait", "job-1").exit_code == 0

    table = terminal("metrics", "job-1").stdout.splitlines()
    assert table[0].split()[:4] == ["METRIC", "GROUP", "HOST", "VALUES"]
    assert table[1].split()[3:] == ["2", "0.5", "0.25", "0.5", "0.25"]
    assert {line.split()[0] for line in table[2:]} >= {"host/cpu", "host/memory_bytes"}

    lines = terminal("metrics", "job-1", "--name", "loss", "-o", "json").stdout.splitlines()
    values = list(map(json.loads, lines))
    assert [each["value"] for each in values] == [0.5, 0.25]
    assert list(values[0]) == ["time", "metric_name", "group", "host", "step", "value"]
    assert values[0]["time"].endswith("+00:00")

    options = ("--name", "host/memory_bytes", "--name", "loss", "-o", "csv")
    rows = list(csv.DictReader(terminal("metrics", "job-1", *options).stdout.splitlines()))
    assert {row["metric_name"] for row in rows} == {"loss", "host/memory_bytes"}
    memory = [row for row in rows if row["metric_name"] == "host/memory_bytes"]
    assert float(memory[0]["value"]) > 1e6
    assert memory[0]["host"] == "algo-1"

    wrong = terminal("metrics", "job-1", "--name", "los")
    assert wrong.exit_code == 2
    assert 'did you mean "loss"?' in wrong.stderr
    assert terminal("metrics", "job-2").exit_code != 0


@pytest.mark.long
def test_followed_values_come_line_by_line(terminal, start):
    file = start()
    with terminal.start("metrics", "job-1", "-f", "--name", "loss", "-o", "csv") as following:
        terminal.wait_for(following.stdout, ",loss,")
        file.touch()
        stdout, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert [row.split(",")[-1] for row in stdout.splitlines()] == ["0.25"]


@pytest.mark.long
def test_a_terminal_shows_charts_until_the_job_ends(terminal, start):
    file = start()

    def is_seen(text):
        if "loss" in text:
            file.touch()  # the job ends once its first chart was seen
        return False

    shown = capture(
        [sys.executable, "-m", "launcher", "metrics", "job-1", "-f"],
        columns=80,
        environment={**terminal.environment, "TERM": "xterm-256color"},
        interrupt_at=is_seen,
    )
    assert shown.code == 0
    assert shown.screen.unknown == []
    text = "\n".join(shown.lines)
    assert "host/cpu" in text
    assert "0.25" in text
    assert max(map(len, shown.lines)) <= 80


@pytest.mark.long
def test_a_job_without_values_says_so(terminal):
    job = terminal.write("print('hello')\n")
    terminal("run", job, "--local", "--isolation", "process", "--name", "job-1")
    result = terminal("metrics", "job-1", "--name", "host/cpu")
    assert result.exit_code == 2
    assert "it has no values yet" in result.stderr
    result = terminal("metrics", "job-1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "job job-1 has printed no values of metrics yet" in result.stderr
