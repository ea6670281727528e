"""Jobs that are restarted by their policy, on this machine and at the endpoint: real processes.

Clients are killed with SIGKILL between attempts; no attempt is missing, and none is created twice.
"""

import json
import re
import signal

import pytest
from customer import BUCKET, Customer
from waiting import wait_until

from launcher import LocalSession
from launcher.client.endpoint import serve

#: Steps on from the checkpoint, and ends by what the test names until it has made three steps.
STEPS = """\
import os, pathlib, signal, sys, time
file = pathlib.Path(os.environ["LAUNCHER_CHECKPOINT_DIR"], "step")
step = int(file.read_text()) if file.exists() else 0
print("from step", step, flush=True)
file.write_text(str(step + 1))

def first_process():
    pid = os.getppid()
    while b"launch.py" in pathlib.Path(f"/proc/{parent(pid)}/cmdline").read_bytes():
        pid = parent(pid)
    return pid

def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

if step < 2:
    %s
    time.sleep(600)
"""
#: Until the platform has stored the checkpoint, and forwarded what was printed before it.
STORED = """
    stored = pathlib.Path(HOME, "storage/checkpoints/my-bucket/kept/step")
    while not stored.exists() or stored.read_text() != str(step + 1):
        time.sleep(0.1)
"""
ENDS = {
    "exit code": "sys.exit(75)",
    "SIGKILL of the host": f"{STORED}    os.kill(first_process(), signal.SIGKILL)",
    "SIGKILL of the platform": f"{STORED}    os.kill(parent(first_process()), signal.SIGKILL)",
}
RETRY = "retry: {attempts: %d, on: [host_lost, exit: [75]], backoff: %d}\n"
KEPT = "checkpoint_s3_uri: s3://my-bucket/kept\n"
LOCAL = ("--local", "--isolation", "process", "--name", "rings")


def names_of(session):
    return sorted(
        job["TrainingJobName"] for job in session.list_training_jobs()["TrainingJobSummaries"]
    )


def status_of(session, name):
    return session.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]


def is_kept(session, name):
    """Return whether the job's keeper runs: before, a killed client leaves a job that has none."""
    return lambda: (
        name in names_of(session)
        and len(session.describe_training_job(TrainingJobName=name)["SecondaryStatusTransitions"])
        > 1
    )


def has_ended(session, name, status):
    return lambda: name in names_of(session) and status_of(session, name) == status


def lines_of(session, name):
    (stream,) = session.log_streams(name)
    return [event.text for event in session.read_log(name, stream.name)[0]]


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_keeper_restarts_a_job_whose_client_is_gone(terminal, end):
    script = STEPS % end.replace("HOME", repr(str(terminal.home)))
    job = terminal.write(script, terminal.one_host + KEPT + RETRY % (3, 0))
    session = LocalSession(terminal.home)
    client = terminal.start("run", job, *LOCAL)
    wait_until(is_kept(session, "rings"))
    client.send_signal(signal.SIGKILL)
    client.communicate()
    wait_until(has_ended(session, "rings-3", "Completed"))
    names = ["rings", "rings-2", "rings-3"]
    assert names_of(session) == names
    assert [status_of(session, name) for name in names] == ["Failed", "Failed", "Completed"]
    for step, name in enumerate(names):
        assert f"from step {step}" in lines_of(session, name)


@pytest.mark.long
def test_a_client_follows_each_attempt_and_the_last_one_may_fail(terminal):
    job = terminal.write(STEPS % ENDS["exit code"], terminal.one_host + KEPT + RETRY % (2, 0))
    done = terminal("run", job, *LOCAL)
    assert done.exit_code == 1
    told = "(job rings is restarted, from its checkpoints if it has any: job rings-2)"
    assert told in done.stderr.splitlines()
    assert "from step 0" in done.stderr
    assert "from step 1" in done.stderr
    session = LocalSession(terminal.home)
    assert names_of(session) == ["rings", "rings-2"]
    assert session.next_attempt("rings-2") is None


#: Verbs that follow a job, and what each prints that is of its last attempt alone.
FOLLOWING = {
    ("wait", "rings"): "rings-3  Completed",
    ("logs", "-f", "rings"): "from step 2",
    ("metrics", "-f", "rings", "-o", "json"): '"value": 2.0',
    ("status", "rings", "--watch"): "Job      rings-3",
}


@pytest.mark.long
def test_whoever_follows_a_job_follows_its_restarts(terminal):
    own = 'metric_definitions: [{Name: step, Regex: "from step ([0-9]+)"}]\n'
    described = terminal.one_host + KEPT + own + RETRY % (3, 1)
    job = terminal.write(STEPS % ENDS["exit code"], described)
    assert terminal("run", job, *LOCAL, "--detach").exit_code == 0
    verbs = {words: terminal.start(*words) for words in FOLLOWING}
    late = terminal("wait", "rings", "--timeout", "0.1")
    assert late.exit_code == 124
    printed = {words: verb.communicate() for words, verb in verbs.items()}
    for words, (out, err) in printed.items():
        assert verbs[words].returncode == 0, err
        assert FOLLOWING[words] in out
        for number in (2, 3):
            assert err.count(f"from its checkpoints if it has any: job rings-{number})") == 1
    ended = terminal("logs", "-f", "rings").stdout
    assert [f"from step {step}" in ended for step in range(4)] == [True, True, True, False]
    assert "from step 1" not in terminal("logs", "rings").stdout


@pytest.mark.long
def test_a_job_that_is_stopped_before_its_restart_is_not_restarted(terminal):
    job = terminal.write(STEPS % ENDS["exit code"], terminal.one_host + KEPT + RETRY % (3, 3600))
    session = LocalSession(terminal.home)
    assert terminal("run", job, *LOCAL, "--detach").exit_code == 0
    wait_until(has_ended(session, "rings", "Failed"))
    assert session.next_attempt("rings") == "rings-2"
    assert terminal("stop", "rings").exit_code == 0
    wait_until(lambda: session.next_attempt("rings") is None)
    assert names_of(session) == ["rings"]


CLOUD = f"""\
entry_point: train.py
source_dir: .
instance_type: ml.m5.large
instance_count: 1
role: LauncherLocalRole
image_uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1
output_path: s3://{BUCKET}/output
checkpoint_s3_uri: s3://{BUCKET}/kept
"""


@pytest.mark.long
def test_a_client_that_is_killed_between_attempts_is_continued_by_the_same_command(
    terminal, tmp_path, offline
):
    job = terminal.write(STEPS % ENDS["exit code"], CLOUD + RETRY % (3, 3))
    with serve(tmp_path / "endpoint", isolation="process") as endpoint:
        customer = Customer(endpoint, tmp_path / "endpoint")
        customer.s3.create_bucket(Bucket=BUCKET)
        session = LocalSession(tmp_path / "endpoint")
        terminal.environment |= endpoint.environment
        command = ("run", job, "--session", "aws", "--name", "rings", "--yes")
        for name in ("rings", "rings-2"):  # killed in the pause after each of them
            client = terminal.start(*command)
            terminal.wait_for(client.stderr, f"trying again, attempt {3 - (name == 'rings')} of 3")
            client.send_signal(signal.SIGKILL)
            client.communicate()
            assert status_of(session, name) == "Failed"
        done = terminal(*command)
        assert done.exit_code == 0, done.stderr
        assert names_of(session) == ["rings", "rings-2", "rings-3"]
        for step, name in enumerate(names_of(session)):
            assert f"from step {step}" in lines_of(session, name)
        record = json.loads(terminal("status", "rings", "-o", "json").stdout)["record"]
        assert record["attempts"] == ["rings", "rings-2", "rings-3"]


@pytest.mark.long
def test_the_limit_of_cost_is_that_of_all_attempts(terminal, tmp_path, offline):
    """At $100 a second, which any attempt takes, what is left is less than another may cost."""
    prices = tmp_path / "prices.csv"
    prices.write_text("instance_type,price_per_hour\nml.m5.large,360000\nstorage,0\n")
    job = terminal.write(STEPS % ENDS["exit code"], CLOUD + RETRY % (3, 1) + "max_run: 600\n")
    with serve(tmp_path / "endpoint", isolation="process") as endpoint:
        Customer(endpoint, tmp_path / "endpoint").s3.create_bucket(Bucket=BUCKET)
        terminal.environment |= {**endpoint.environment, "LAUNCHER_PRICES": str(prices)}
        command = ("run", job, "--session", "aws", "--name", "rings", "--yes", "--max-cost")
        refused = terminal(*command, "1")
        (most,) = re.findall(r"may cost \$([\d,.]+)", refused.stderr)
        ended = terminal(*command, float(most.replace(",", "")) + 50)
        assert names_of(LocalSession(tmp_path / "endpoint")) == ["rings"]
    assert (refused.exit_code, ended.exit_code) == (2, 1), ended.stderr
    assert "job rings-2 is not sent: the job may cost" in ended.stderr
