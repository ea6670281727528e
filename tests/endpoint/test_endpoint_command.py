"""`launcher endpoint` at a shell: how it begins, what it tells, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from customer import Customer
from test_endpoint_life import OBEDIENT

from launcher.client.endpoint import ServedEndpoint, serve
from launcher.client.sessions import LocalSession

LAUNCHER = [sys.executable, "-m", "launcher"]


def started(root: Path, *more: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A server that is ready, and the variables that it has printed."""
    command = [*LAUNCHER, "endpoint", "--port", "0", "--root", str(root), *more]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    return process, dict(re.findall(r"^export (\w+)=(\S+)$", "".join(lines), re.MULTILINE))


@pytest.mark.long
def test_ctrl_c_ends_it_and_leaves_its_jobs(tmp_path: Path) -> None:
    key = "AKIAIOSFODNN7EXAMPLE:a-secret-of-somebody"
    process, environment = started(tmp_path, "--access-key", key, "--isolation", "process")
    assert list(environment) == [
        "AWS_ENDPOINT_URL",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
    ]
    assert environment["AWS_ACCESS_KEY_ID"] == "AKIAIOSFODNN7EXAMPLE"
    customer = Customer(ServedEndpoint(environment=environment, process=process), tmp_path)
    customer.submit("goes-on", OBEDIENT)
    customer.wait("goes-on", "SecondaryStatus", "Training")
    first = customer.describe("goes-on")["SecondaryStatusTransitions"][0]
    assert "the image is not pulled" in first["StatusMessage"]
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=540)
    assert process.returncode == 0
    assert "Serving" in talk
    assert "CreateTrainingJob us-east-1 goes-on\n" in talk
    assert "Running jobs continue; start it again to serve them." in talk
    assert "Traceback" not in talk
    local = LocalSession(tmp_path)
    assert local.describe_training_job(TrainingJobName="goes-on")["SecondaryStatus"] == "Training"
    with serve(tmp_path, port=customer.endpoint.port) as endpoint:
        assert endpoint.environment == environment
        again = Customer(endpoint, tmp_path)
        again.sagemaker.stop_training_job(TrainingJobName="goes-on")
        assert again.end_of("goes-on")["TrainingJobStatus"] == "Stopped"


@pytest.mark.long
def test_a_secret_of_any_characters_reaches_clients(tmp_path: Path) -> None:
    secret = 'it\'s $HOME; `pwd` & "more"'
    command = [*LAUNCHER, "endpoint", "--port", "0", "--root", str(tmp_path)]
    command += ["--access-key", f"AKIAIOSFODNN7EXAMPLE:{secret}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        exports = "".join(process.stdout.readline() for _ in range(4))
        process.terminate()
    shell = ["sh", "-c", f'{exports}printf %s "$AWS_SECRET_ACCESS_KEY"']
    assert subprocess.check_output(shell, text=True) == secret
    with serve(tmp_path) as endpoint:
        assert endpoint.environment["AWS_SECRET_ACCESS_KEY"] == secret
        assert endpoint.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


#: Starts an endpoint that gets a signal within the start of the thread for its first connection.
STOPPED_IN_A_START = """
import os, signal, sys, threading
from launcher.client.cli import main
_, name, root = sys.argv
start = threading.Thread.start
def start_and_stop(thread):
    start(thread)
    if "process_request_thread" in thread.name:
        thread.join()  # it may be that quick
        os.kill(os.getpid(), getattr(signal, name))
threading.Thread.start = start_and_stop
main(["endpoint", "--port", "0", "--root", root])
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_a_connection_gets_its_thread_ends_it(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-c", STOPPED_IN_A_START, name, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().rpartition("/")[2]
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port))).close()
        _, talk = process.communicate(timeout=540)
    assert process.returncode == 0
    assert "The endpoint has stopped." in talk
    assert "Traceback" not in talk


@pytest.mark.long
def test_it_listens_on_the_loopback_only(customer: Customer) -> None:
    port = f"{customer.endpoint.port:04X}"
    tables = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listening = re.findall(rf"^ *\d+: (\w+):{port} \w+:0000 0A", tables, re.MULTILINE)
    assert listening == ["0100007F"]  # 127.0.0.1, the lowest byte first


@pytest.mark.long
def test_secrets_are_the_owners_only(customer: Customer) -> None:
    file = customer.root / "access-key.json"
    assert file.stat().st_mode & 0o077 == 0


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['moto'] = None; from launcher.client.cli import main; main()"
    command = [sys.executable, "-c", program, "endpoint"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert result.returncode == 2
    assert "pip install 'hetero-launcher[endpoint]'" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--rate", "GetLogEvents", "--rate takes OPERATION=NUMBER"),
        ("--rate", "GetLogEvents=-1", "--rate GetLogEvents=-1: give more than 0 requests"),
        ("--rate", "GetLogEvents=nan", "--rate GetLogEvents=nan: give more than 0 requests"),
        ("--rate", "GetLogEvnts=inf", "did you mean GetLogEvents?"),
        ("--rate", "PutObject=1", "--rate PutObject: none of sagemaker, logs, "),
        ("--access-key", "short", "an access key has the form ID:SECRET"),
    ],
)
def test_options_that_mean_nothing(option: str, value: str, complaint: str) -> None:
    command = [*LAUNCHER, "endpoint", option, value]
    result = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert result.returncode == 2
    assert complaint in result.stderr
