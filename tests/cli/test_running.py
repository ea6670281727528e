"""launcher run, list, status, logs and stop on real jobs of this machine."""

import json
import tarfile
from datetime import datetime, timezone
from urllib.parse import unquote, urlsplit

import pytest

WRITES_A_MODEL = """\
import os, pathlib
print("score=0.5")
print("score=0.75")
pathlib.Path(os.environ["SM_MODEL_DIR"], "weights.txt").write_text("1 2 3")
"""
METRIC = 'metric_definitions: [{Name: score, Regex: "score=([0-9.]+)"}]\n'
WAITS_FOREVER = """\
import signal, time
print("waiting", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.long
def test_a_job_that_completes(terminal):
    job = terminal.write(WRITES_A_MODEL, terminal.one_host + METRIC)
    result = terminal("run", job, "--local", "--name", "job-1", "-o", "json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    model = summary.pop("model_artifacts")
    billable = summary["groups"][0].pop("billable_seconds")
    assert summary.pop("record")["hyperparameters"] == {}
    assert summary == {
        "name": "job-1",
        "status": "Completed",
        "secondary_status": "Completed",
        "failure_reason": None,
        "interruptions": 0,
        "exit_code": 0,
        "groups": [
            {
                "name": "homogeneousCluster",
                "role": "train",
                "instance_type": "local",
                "hosts": ["algo-1"],
            }
        ],
        "metrics": {"score": 0.75},
        "data": None,
        "failed_host": None,
        "logs_refused": None,
        "failure": None,
        "cost": None,
        "losses": [],
    }
    assert billable >= 1
    with tarfile.open(unquote(urlsplit(model).path)) as archive:
        assert archive.extractfile("weights.txt").read() == b"1 2 3"


@pytest.mark.long
def test_a_number_that_json_does_not_have_is_null(terminal):
    definitions = """
metric_definitions:
  - {Name: loss, Regex: "loss=(.*)"}
  - {Name: norm, Regex: "norm=(.*)"}
"""
    job = terminal.write("print('loss=nan'); print('norm=inf')", terminal.one_host + definitions)
    result = terminal("run", job, "--local", "-o", "json")
    assert json.loads(result.stdout)["metrics"] == {"loss": None, "norm": None}
    assert "Metric   loss = nan" in terminal("status", json.loads(result.stdout)["name"]).stdout


@pytest.mark.long
def test_the_talk_and_the_lines_of_a_job(terminal):
    job = terminal.write('import os\nprint("lost hosts:", os.environ["LAUNCHER_HOST_FAILURE"])\n')
    result = terminal("run", job, "--local", "--host-failure", "tolerate", "--name", "job-1")
    assert result.exit_code == 0, result.stderr
    assert "[Training]" in result.stderr
    assert "homogeneousCluster/algo-1 | lost hosts: tolerate" in result.stderr
    assert "lost hosts" not in result.stdout
    assert "Completed" in result.stdout
    assert "launcher logs job-1" in result.stdout

    printed = terminal("logs", "job-1", "-o", "json").stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    own = [line for line in lines if line["text"].startswith("launcher: ")]
    assert own
    for line in own:
        assert line["text"].startswith(f"launcher: {line['event']} ")
        assert line["fields"]["host"] == line["host"] == "algo-1"
    assert all("event" not in line and "fields" not in line for line in lines if line not in own)

    absent = terminal("logs", "job-1", "--host", "algo-7", "--group", "homogenousCluster")
    assert absent.exit_code == 2
    assert "algo-1" in absent.stderr
    assert 'did you mean "homogeneousCluster"?' in absent.stderr


def test_another_word_for_it_is_refused_before_anything_is_made(terminal):
    result = terminal("run", terminal.write(), "--local", "--host-failure", "ignore")
    assert result.exit_code == 2
    assert "'ignore' is not one of 'fail', 'tolerate'" in result.stderr
    assert not terminal.home.exists()


@pytest.mark.long
def test_a_failure_is_shown_once_with_its_host_and_what_to_type_next(terminal):
    script = "for n in range(40):\n    print('step', n)\nraise ValueError('no such luck')\n"
    job = terminal.write(script, terminal.one_host.replace("count: 1", "count: 2"))
    result = terminal("run", job, "--local", "--name", "job-1")
    status = json.loads(terminal("status", "job-1", "-o", "json").stdout)
    failed, host = status["failed_host"], status["failure"]["host"]
    assert failed["host"] == host
    assert host in status["failure_reason"]
    assert len(failed["last_lines"]) == 20
    assert failed["last_lines"][-1] == "ValueError: no such luck"
    assert (result.stdout + result.stderr).count("no such luck") == 2  # with the source's line
    assert result.stdout.endswith(
        f"Cause    {host} (homogeneousCluster): ValueError: no such luck\n"
        '           File "train.py", line 3, in <module>\n'
        "             raise ValueError('no such luck')\n"
        f"Try      launcher logs job-1 --host {host}\n"
    )
    logs = terminal("logs", "job-1", "--host", host).stdout
    assert f"homogeneousCluster/{host} | ValueError: no such luck\n" in logs
    assert "launcher: " not in logs
    assert "launcher: host_failed" in terminal("logs", "job-1", "-v").stdout


@pytest.mark.long
def test_a_job_can_be_looked_at_afterwards(terminal):
    job = terminal.write(job=terminal.one_host.replace("count: 1", "count: 2"))
    first = terminal("run", job, "--local", "--name", "job-1", "-o", "json")
    terminal("run", terminal.write("raise SystemExit(3)"), "--local", "--name", "job-2")

    status = terminal("status", "job-1", "-o", "json")
    assert json.loads(status.stdout) == json.loads(first.stdout)
    assert status.exit_code == 0
    assert terminal("status", "job-2").exit_code == 1

    jobs = json.loads(terminal("list", "-o", "json").stdout)["jobs"]
    assert [(job["name"], job["status"]) for job in jobs] == [
        ("job-2", "Failed"),
        ("job-1", "Completed"),
    ]
    listed = terminal("list", "--status", "Failed").stdout
    assert "job-2" in listed
    assert "job-1" not in listed

    printed = terminal("logs", "job-1", "--host", "algo-2", "-o", "json").stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    times = [datetime.fromisoformat(line.pop("time")) for line in lines]
    assert times == sorted(times)
    assert abs((datetime.now(timezone.utc) - times[-1]).total_seconds()) < 600
    assert {"group": "homogeneousCluster", "host": "algo-2", "text": "hello"} in lines
    assert {line["host"] for line in lines} == {"algo-2"}


def test_no_jobs_yet(terminal):
    assert json.loads(terminal("list", "-o", "json").stdout) == {"jobs": []}
    assert "launcher init" in terminal("list").stderr


@pytest.mark.long
def test_stop_ends_a_job_and_run_reports_stopped(terminal):
    process = terminal.start("run", terminal.write(WAITS_FOREVER), "--local", "--name", "job-1")
    terminal.wait_for(process.stderr, "| waiting")
    assert terminal("stop", "job-1").exit_code == 0
    stdout, _ = process.communicate(timeout=540)
    assert process.returncode == 3
    assert "Stopped" in stdout
    again = terminal("stop", "job-1")
    assert again.exit_code == 0
    assert "already ended" in again.stderr


WAITS_FOR_A_FILE = """\
import os, pathlib, sys, time
while os.environ["SM_CURRENT_INSTANCE_GROUP"] == "b" and not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.05)
"""
TWO_SCRIPT_GROUPS = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: a, instance_type: ml.c5.xlarge}
  - {instance_group_name: b, instance_type: ml.c5.xlarge, instance_count: 2}
hyperparameters: {until: FILE}
"""


@pytest.mark.long
def test_hosts_that_keep_a_job_waiting_are_named_with_their_price(terminal, tmp_path):
    job = TWO_SCRIPT_GROUPS.replace("FILE", str(tmp_path / "enough"))
    path = terminal.write(WAITS_FOR_A_FILE, job)
    run = terminal.start("run", path, "--local", "--isolation", "process", "--name", "job-1")
    with run:
        sentence = "algo-2, algo-3 (b, ml.c5.xlarge): still running after a; $"
        terminal.wait_for(run.stderr, sentence)
        (tmp_path / "enough").touch()
        assert "an hour on SageMaker" not in run.stderr.read()  # it was said once
    assert run.returncode == 0
    lines = terminal("logs", "job-1").stdout.splitlines()
    (line,) = [line for line in lines if sentence in line]
    assert line.endswith(" an hour on SageMaker")
