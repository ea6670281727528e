"""Script groups beside a distribution's ranks, train groups and commands, in whole local jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench import fit, printed
from needs import needs_mpirun

from launcher import DataService, InstanceGroup, Job, LocalSession, Ready

#: Prints what it is and how it was started; `add` is where the ranks of a distribution meet.
SCRIPT = """
import json, os, sys
names = ("SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "RANK", "OMPI_COMM_WORLD_SIZE",
         "SM_DISTRIBUTION_INSTANCE_GROUPS")
found = {name: os.environ[name] for name in names if name in os.environ}
total = None
if "RANK" in os.environ and "torch" in os.environ.get("DEMAND", ""):
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    ranks = torch.tensor([dist.get_rank()])
    dist.all_reduce(ranks)
    total = int(ranks)
    dist.destroy_process_group()
print("FOUND", json.dumps({**found, "sum": total, "arguments": sys.argv[1:]}), flush=True)
"""
SERVER = """
import json, os, socket, sys
with socket.create_server((os.environ["LAUNCHER_HOST_ADDRESS"], 8000)):
    print("SERVES", json.dumps(sys.argv[1:]), flush=True)
    while True:
        __import__("time").sleep(0.1)
"""
CLIENT = """
import os, socket
if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "b":
    raise SystemExit(0)
for host in os.environ["LAUNCHER_HOSTS_SERVERS"].split(","):
    socket.create_connection((host, 8000)).close()  # once: it is ready
    print("reached", flush=True)
"""
CPU = "ml.c5.xlarge"


def run(tmp_path: Path, files: Mapping[str, str], **fields: Any) -> Job:
    job = fit(LocalSession(tmp_path / "home"), tmp_path / "source", files, **fields)
    assert job.status == "Completed", "\n".join(line.text for line in job.logs())
    return job


def found(job: Job, word: str = "FOUND") -> list[Any]:
    lines = [line.text for line in job.logs() if line.text.startswith(f"{word} ")]
    return [json.loads(line.removeprefix(f"{word} ")) for line in lines]


@pytest.mark.long
@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param({"torch_distributed": {"enabled": True}}, id="torchrun"),
        pytest.param(
            {"mpi": {"enabled": True, "processes_per_host": 2}},
            id="mpi",
            marks=needs_mpirun,
        ),
    ],
)
def test_a_distribution_starts_its_group_and_plain_python_the_other(
    tmp_path: Path, strategy: dict[str, Any]
) -> None:
    pytest.importorskip("torch")
    data, dnn = InstanceGroup("data_group", CPU), InstanceGroup("dnn_group", CPU, 2)
    job = run(
        tmp_path,
        {"train.py": SCRIPT},
        instance_groups=[data, dnn],
        distribution={**strategy, "instance_groups": [dnn]},
        hyperparameters={"epochs": 3},
        environment={"DEMAND": "torch"},
    )
    reports = found(job)
    ranks = [each for each in reports if "RANK" in each]
    size = 4 if "mpi" in strategy else 2
    assert sorted(each["RANK"] for each in ranks) == [str(rank) for rank in range(size)]
    assert {each["SM_CURRENT_INSTANCE_GROUP"] for each in ranks} == {"dnn_group"}
    assert {each["sum"] for each in ranks} == {sum(range(size))}
    assert [each.get("OMPI_COMM_WORLD_SIZE") for each in ranks] == (
        ["4"] * 4 if "mpi" in strategy else [None] * 2
    )
    (plain,) = [each for each in reports if "RANK" not in each]
    assert plain["SM_CURRENT_INSTANCE_GROUP"] == "data_group"
    assert all(each["arguments"] == ["--epochs", "3"] for each in reports)
    assert all(each["SM_DISTRIBUTION_INSTANCE_GROUPS"] == '["dnn_group"]' for each in reports)


@pytest.mark.long
def test_one_group_has_a_role_and_the_script_runs_on_the_others(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    groups = [
        InstanceGroup("a", CPU),
        InstanceGroup("b", CPU),
        InstanceGroup("trainer", CPU, 2, role="train"),
    ]
    job = run(
        tmp_path,
        {"train.py": SCRIPT},
        instance_groups=groups,
        distribution={"torch_distributed": {"enabled": True}},
        environment={"DEMAND": "torch"},
    )
    reports = {each["SM_CURRENT_HOST"]: each for each in found(job)}
    assert {host: each.get("RANK") for host, each in reports.items()} == {
        "algo-1": None,
        "algo-2": None,
        "algo-3": "0",
        "algo-4": "1",
    }
    roles = {group["name"]: group["role"] for group in job.summary()["groups"]}
    assert roles == {"a": "script", "b": "script", "trainer": "train"}


@pytest.mark.long
def test_a_script_group_beside_a_data_service(tmp_path: Path) -> None:
    groups = [
        InstanceGroup("data_group", CPU, role="data"),
        InstanceGroup("watcher", CPU, role="script"),
        InstanceGroup("trainer", CPU, role="train"),
    ]
    script = """
import os
if os.environ["SM_CURRENT_INSTANCE_GROUP"] == "watcher":
    print("watched", flush=True)
    raise SystemExit(0)
from launcher.data import DataLoader
print("read", sum(len(batch) for batch in DataLoader("pipeline:numbers", batch_size=4)))
"""
    job = run(
        tmp_path,
        {"train.py": script, "pipeline.py": "def numbers():\n    return list(range(10))\n"},
        instance_groups=groups,
        data_service=DataService(datasets=("pipeline:numbers",), workers_per_host=1),
    )
    assert printed(job) == {"algo-1": [], "algo-2": ["watched"], "algo-3": ["read 10"]}


@pytest.mark.long
def test_a_command_beside_script_groups_is_ready_and_gets_the_hyperparameters(
    tmp_path: Path,
) -> None:
    servers = InstanceGroup(
        "servers",
        CPU,
        2,
        command=["python", "server.py"],
        ready=Ready(port=8000),
        pass_hyperparameters=True,
    )
    job = run(
        tmp_path,
        {"train.py": CLIENT, "server.py": SERVER},
        instance_groups=[servers, InstanceGroup("a", CPU), InstanceGroup("b", CPU)],
        hyperparameters={"size": 3, "name": "x y"},
    )
    assert found(job, "SERVES") == [["--name", "x y", "--size", "3"]] * 2
    assert [line.host for line in job.logs() if line.text == "reached"] == ["algo-3"] * 2
