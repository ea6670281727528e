"""ParameterServerStrategy: real servers of TensorFlow on the hosts of a 2+2 cluster."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts

from launcher.runtime import SERVER_MODULE
from launcher.shared import JobDocument, Launch, Role, TrainerPart

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

#: The chief alone runs it; what it schedules runs on the worker, the variable is on the servers.
COUNT = """
import os, sys
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = [tf.Variable(0), tf.Variable(0)]

@tf.function
def step():
    for variable in total:
        variable.assign_add(1)
    return tf.constant(1)

def run(steps):
    for _ in range(steps):
        coordinator.schedule(step)
    coordinator.join()
    print("placed", *(variable.device for variable in total), flush=True)
    print("total", *(int(variable.numpy()) for variable in total), flush=True)

run(5)
"""
WITHOUT_END = (
    COUNT
    + """
while True:
    coordinator.schedule(step)
    coordinator.join()
    print("steps", flush=True)
"""
)
FAILING = (
    COUNT
    + """
raise ValueError("the chief has enough")
"""
)
Start = Callable[..., Hosts]


@pytest.fixture
def start(make_cluster: Start) -> Start:
    """Starts the chief, a worker and, with a group of theirs, two servers."""

    def start(script: str, *, servers: int = 2) -> Hosts:
        groups = {"train": 2, "ps": servers} if servers else {"train": 2}
        document = JobDocument(
            roles={name: Role.TRAIN if name == "train" else Role.COMMAND for name in groups},
            trainer=TrainerPart(
                entry_point="train.py",
                launch=Launch.PARAMETER_SERVER,
                settings={"server_group": "ps"} if servers else {},
            ),
            start_timeout=500.0,
        )
        hosts = make_cluster(document, groups, {"train.py": script})
        hosts.start()
        return hosts

    return start


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param(2, id="a servers' group", marks=pytest.mark.library("smoke")),
        pytest.param(0, id="no servers' group"),
    ],
)
def test_the_chief_counts_on_the_worker_with_variables_on_the_servers(
    start: Start, servers: int
) -> None:
    hosts = start(COUNT, servers=servers)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    chief = hosts["algo-1"].output
    assert "total 5 5" in chief
    (placed,) = re.findall(r"^placed .*", chief, re.MULTILINE)
    assert re.findall(r"/job:(\w+)/replica:0/task:(\d)", placed) == [("ps", "0"), ("ps", "1")]
    assert hosts.processes() == []


def test_each_host_has_its_task(start: Start) -> None:
    """The chief is the one rank of the job."""
    hosts = at_work(start(WITHOUT_END))
    servers = {name: variables(server_of(hosts, name)) for name in ("algo-2", "algo-3", "algo-4")}
    chief = variables(script_of(hosts, "algo-1"))
    configs = [json.loads(each["TF_CONFIG"]) for each in (chief, *servers.values())]
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    tasks = [(config["task"]["type"], config["task"]["index"]) for config in configs]
    assert tasks == [("chief", 0), ("worker", 0), ("ps", 0), ("ps", 1)]
    expected = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": hosts.addresses["algo-1"],
        "MASTER_PORT": str(hosts.port_base + 7),
    }
    assert expected.items() <= chief.items()
    assert not any("RANK" in each for each in servers.values())


def variables(pid: int) -> dict[str, str]:
    """The environment of a process."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


# Endings -----------------------------------------------------------------------------------------


def at_work(hosts: Hosts) -> Hosts:
    hosts.await_output("steps", "algo-1")
    return hosts


def server_of(hosts: Hosts, name: str) -> int:
    """The process of TensorFlow's server on a host."""
    found = [pid for pid in hosts.processes(name) if SERVER_MODULE in command_line(pid)]
    (pid,) = found
    return pid


def script_of(hosts: Hosts, name: str) -> int:
    """The process of the script, which the chief runs."""
    (pid,) = [pid for pid in hosts.processes(name) if "train.py" in command_line(pid)]
    return pid


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("algo-3", "host algo-3 (ps): the parameter server ended before training did: killed by "),
        ("algo-2", "host algo-2 (train): the TensorFlow worker ended: killed by SIGKILL"),
    ],
    ids=["a server", "a worker"],
)
def test_a_killed_server_is_the_reason(start: Start, name: str, reason: str) -> None:
    hosts = at_work(start(WITHOUT_END))
    os.kill(server_of(hosts, name), signal.SIGKILL)
    codes = hosts.wait()
    assert codes["algo-1"] == codes[name] == 1, hosts.output()
    assert (hosts[name].failure or "").startswith(reason), hosts.output()
    assert hosts["algo-1"].failure is None
    assert hosts.processes() == []


@pytest.mark.slow
def test_an_error_of_the_chief_ends_all_servers(start: Start) -> None:
    hosts = start(FAILING)
    assert hosts.wait()["algo-1"] == 1, hosts.output()
    reason = hosts["algo-1"].failure or ""
    assert reason.startswith("host algo-1 (train), rank 0: ValueError: the chief has enough")
    assert hosts.processes() == []


@pytest.mark.slow
@pytest.mark.library("smoke")
def test_a_killed_chief_ends_all_servers(start: Start) -> None:
    hosts = at_work(start(WITHOUT_END))
    os.kill(script_of(hosts, "algo-1"), signal.SIGKILL)
    assert hosts.wait()["algo-1"] == 1, hosts.output()
    reason = hosts["algo-1"].failure or ""
    assert reason.startswith("host algo-1 (train), rank 0: killed by SIGKILL")
    assert all(hosts[name].failure is None for name in ("algo-2", "algo-3", "algo-4"))
    assert hosts.processes() == []


@pytest.mark.slow
def test_a_stop_leaves_no_server(start: Start) -> None:
    hosts = at_work(start(WITHOUT_END))
    hosts.terminate()
    assert hosts.wait()["algo-1"] == 143, hosts.output()
    assert all(host.failure is None for host in hosts.hosts.values())
    assert hosts.processes() == []
