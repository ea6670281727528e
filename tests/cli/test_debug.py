"""`launcher run --debug`: rank 0 alone in this terminal, with the batches of the job."""

import json
import os
import signal
import socket
import sys

import pytest
from captured_screen import Typist

from launcher.client.spec import JobSpec, as_one_rank
from launcher.errors import SpecError
from launcher.shared import DEBUG_VARIABLE, STREAM_WORLD_VARIABLE

CLUSTER = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.2xlarge}
  - {instance_group_name: train_group, instance_type: ml.g4dn.xlarge, instance_count: 2}
distribution: data_parallel
data_service: {workers_per_host: 1}
hyperparameters: {rate: 0.5}
inputs:
  table: {s3_data: "file://TABLE", instance_groups: [data_group]}
"""
PIPELINE = """\
import os, random
import numpy as np
from launcher.data import channel

class Table:
    def __init__(self, path):
        self.rows = np.loadtxt(path)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        if index == 3 and os.environ.get("BAD"):
            raise ValueError("row 3 is bad")
        return self.rows[index] + np.random.rand(), random.random()

def train_set(table):
    return Table(table)
"""
TRAIN = """\
import hashlib, os
from launcher.data import DataLoader, channel

loader = DataLoader("pipeline:train_set", 4, shuffle=True, seed=3, workers=2,
                    dataset_args={"table": channel("table", "rows.txt")})
for step, batch in enumerate(loader):
    digest = hashlib.sha256(b"".join(part.tobytes() for part in batch)).hexdigest()[:16]
    if os.environ["RANK"] == "0":
        print("batch", step, digest, os.environ["SM_CURRENT_INSTANCE_GROUP"], os.environ["SM_HPS"])
    if step == 1 and "LAUNCHER_DEBUG" in os.environ:
        breakpoint()
"""
ASKS = """\
import sys, time
go_on = True
print("begins", flush=True)
while go_on:
    time.sleep(0.05)
name = input("Name? ")
print("Hello", name)
sys.exit(7)
"""


@pytest.fixture
def cluster(terminal):
    """A job with a data group and two train hosts."""
    table = terminal.folder / "table"
    table.mkdir()
    (table / "rows.txt").write_text("\n".join(map(str, range(40))))
    (terminal.folder / "pipeline.py").write_text(PIPELINE)
    terminal.write(TRAIN, CLUSTER.replace("TABLE", str(table)))
    return terminal


def debug(terminal, *options):
    """Someone who debugs the job of the folder."""
    words = ["run", str(terminal.folder / "job.yaml"), "--debug", "--name", "bug", *options]
    return typist(terminal, *words)


def typist(terminal, *words):
    return Typist([sys.executable, "-m", "launcher", *words], terminal.environment)


def status_of(terminal):
    return json.loads(terminal("status", "bug", "-o", "json").stdout)


@pytest.mark.long
def test_pdb_opens_at_a_breakpoint_and_the_batches_are_those_of_the_job(cluster):
    done = cluster("run", cluster.folder, "--local", "--name", "job")
    assert done.exit_code == 0, done.stderr
    lines = [line.partition("batch ")[2] for line in done.stderr.splitlines() if "batch " in line]
    assert len(lines) == 5
    assert lines[0].endswith('train_group {"rate":0.5}')

    person = debug(cluster)
    for line in lines[:2]:
        person.wait_for(f"batch {line}")
    person.wait_for("(Pdb) ")
    person.type("p step + 40\n")
    person.wait_for("41")
    person.type("c\n")
    for line in lines[2:]:
        person.wait_for(f"batch {line}")
    person.wait_for("launcher list")
    assert person.leave() == 0
    assert status_of(cluster)["status"] == "Completed"
    assert [group["name"] for group in status_of(cluster)["groups"]] == ["train_group"]


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["process", "sandbox"])
def test_pdb_opens_in_the_dataset_that_raises(cluster, isolation):
    person = debug(cluster, "--env", "BAD=1", "--isolation", isolation)
    person.wait_for("ValueError: row 3 is bad")
    person.wait_for('-> raise ValueError("row 3 is bad")')
    person.type("p self.rows[index] * 100\n")
    person.wait_for("300.0")
    person.type("q\n")
    person.wait_for("launcher logs")
    assert person.leave() == 1
    ended = status_of(cluster)
    assert ended["status"] == "Failed"
    assert "row 3 is bad" in ended["failure_reason"]


@pytest.mark.long
def test_ctrl_c_opens_pdb_and_input_and_exit_code_are_the_scripts(terminal):
    terminal.write(ASKS)
    person = debug(terminal)
    person.wait_for("begins")
    person.type("\x03")
    person.wait_for("(Pdb) ")
    person.type("go_on = 1 +\x03")
    person.wait_for("--KeyboardInterrupt--")
    person.type("go_on = False\n")
    person.wait_for("(Pdb) ")
    person.type("c\n")
    person.wait_for("Name? ")
    person.type("Ada\n")
    person.wait_for("Hello Ada")
    person.wait_for("launcher logs")
    assert person.leave() == 7
    assert "sys.exit(7)" in status_of(terminal)["failure_reason"]


@pytest.mark.long
def test_a_job_that_was_debugged_is_debugged_again(terminal):
    terminal.write("print('Hello', input('Name? '))\n")
    for start in (debug, lambda it: typist(it, "rerun", "bug", "--name", "again")):
        person = start(terminal)
        person.wait_for("Name? ")
        person.type("Ada\n")
        person.wait_for("Hello Ada")
        person.wait_for("launcher list")
        assert person.leave() == 0
    refused = terminal("rerun", "bug", "--detach")
    assert refused.exit_code == 2
    assert "leave out --detach" in refused.stderr


@pytest.mark.long
def test_a_terminal_that_is_closed_fails_the_job(terminal):
    terminal.write(ASKS)
    person = debug(terminal)
    person.wait_for("begins")
    os.kill(person.pid, signal.SIGKILL)
    assert person.leave() == -signal.SIGKILL
    terminal("wait", "bug")
    reason = status_of(terminal)["failure_reason"]
    assert "the terminal of `launcher run --debug` was closed" in reason


class Editor:
    """An editor that attaches by the debug adapter protocol, as VS Code does."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self._stream = self._socket.makefile("rwb")
        self._count = 0

    def send(self, command, **arguments):
        self._count += 1
        message = {"seq": self._count, "type": "request", "command": command}
        body = json.dumps({**message, "arguments": arguments}).encode()
        self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._stream.flush()

    def wait_for(self, kind):
        """The body of the next event or response of a kind."""
        while True:
            length = int(self._stream.readline().partition(b":")[2])
            self._stream.readline()
            message = json.loads(self._stream.read(length))
            if kind in (message.get("event"), message.get("command")):
                return message.get("body")

    def leave(self):
        self._stream.close()
        self._socket.close()


@pytest.mark.long
def test_an_editor_attaches_to_debugpy_and_stops_at_the_breakpoint(terminal):
    terminal.write("a = 41\nbreakpoint()\nprint('a is', a + 1)\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    person = debug(terminal, "--debugpy", str(port))
    person.wait_for(f"debugpy waits at 127.0.0.1:{port}")
    editor = Editor(port)
    editor.send("initialize", adapterID="test")
    editor.send("attach", name="test")
    editor.wait_for("initialized")
    editor.send("configurationDone")
    thread = editor.wait_for("stopped")["threadId"]
    editor.send("stackTrace", threadId=thread)
    top = editor.wait_for("stackTrace")["stackFrames"][0]
    assert (top["name"], top["line"]) == ("<module>", 3)
    editor.send("continue", threadId=thread)
    person.wait_for("a is 42")
    person.wait_for("launcher list")
    editor.leave()
    assert person.leave() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--detach"], "does not go with --detach"),
        (["--session", "aws"], "does not go with --session aws"),
        (["--isolation", "container"], "does not reach into isolation container"),
        (["--debugpy", "5678", "--isolation", "network"], "--debugpy does not reach into"),
    ],
)
def test_what_has_no_terminal_here_is_refused(terminal, options, words):
    terminal.write()
    refused = terminal("run", terminal.folder, "--debug", *options)
    assert refused.exit_code == 2
    assert words in refused.stderr


GROUPS = "instance_groups: [{instance_group_name: a, instance_type: ml.m5.large}, {GROUP}]\n"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("distribution: {model_parallel: {partitions: 2}}\n", ("distribution",)),
        ("distribution: parameter_server\n", ("distribution",)),
        (
            GROUPS.replace("GROUP", "instance_group_name: b, instance_type: ml.m5.xlarge"),
            ("instance_groups",),
        ),
    ],
)
def test_a_job_without_a_whole_rank_is_refused(tmp_path, more, path):
    machines = "" if "groups" in more else "instance_type: ml.g4dn.xlarge\ninstance_count: 2\n"
    (tmp_path / "train.py").write_text("")
    text = f"entry_point: train.py\nsource_dir: {tmp_path}\n{machines}{more}"
    with pytest.raises(SpecError) as refused:
        as_one_rank(JobSpec.from_yaml(text), "pdb")
    assert [problem.path for problem in refused.value.problems] == [path]


def test_groups_with_a_command_stay_beside_the_rank(tmp_path):
    (tmp_path / "train.py").write_text("")
    spec = JobSpec.from_yaml(
        f"""\
entry_point: train.py
source_dir: {tmp_path}
instance_groups:
  - {{instance_group_name: train, instance_type: ml.g5.12xlarge, instance_count: 2}}
  - {{instance_group_name: sim, instance_type: ml.c5.xlarge, command: [python, sim.py]}}
  - {{instance_group_name: data, instance_type: ml.c5.xlarge}}
distribution: data_parallel
data_service: {{local_workers: 2}}
"""
    )
    alone = as_one_rank(spec, "pdb")
    groups = [(each.instance_group_name, each.instance_count) for each in alone.groups]
    assert groups == [("train", 1), ("sim", 1)]
    assert (alone.distribution.processes_per_host, alone.data_service) == (1, None)
    assert alone.environment == {STREAM_WORLD_VARIABLE: "8", DEBUG_VARIABLE: "pdb"}
