"""Variables of each distribution on every host of a 2+2 cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hosts import Host, Hosts
from needs import needs_mpirun

from launcher.runtime import Environment, WaitNotice, chief_config, server_config, worker_config
from launcher.shared import (
    ADDRESSES_VARIABLE,
    PORT_BASE_VARIABLE,
    JobDocument,
    Launch,
    MlPaths,
    ParallelPart,
    Role,
    ScriptPart,
    TrainerPart,
)

#: Runs on every host, also on those beside the distribution, and needs none of the libraries.
SHOW = """
import json, os
names = ("TF_CONFIG", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
names += ("MASTER_ADDR", "MASTER_PORT", "LAUNCHER_PARALLEL")
print("FOUND", json.dumps({
    name: value
    for name, value in os.environ.items()
    if name in names or name.startswith(("JAX_", "KERAS_", "OMPI_COMM_WORLD_"))
}), flush=True)
"""
Start = Callable[..., Hosts]
Variables = dict[str, str]


@pytest.fixture
def start(make_cluster: Start) -> Start:
    """Starts two hosts that only run the script, algo-1 and algo-2, and two of a distribution."""

    def start(
        launch: str, environment: Mapping[str, str] | None = None, **trainer: object
    ) -> Hosts:
        groups = {"data_group": 2, "train_group": 2}
        document = JobDocument(
            roles=dict.fromkeys(groups, Role.SCRIPT),
            trainer=TrainerPart(
                entry_point="train.py", launch=launch, group="train_group", **trainer
            ),
            scripts={group: ScriptPart() for group in groups},
            start_timeout=60.0,
        )
        files = {"train.py": SHOW}
        hosts = make_cluster(document, groups, files, environment=environment or {})
        hosts.run()
        return hosts

    return start


def found(hosts: Hosts) -> dict[str, list[Variables]]:
    """What each process of a host has printed, by its rank."""
    return {
        name: sorted(printed(host), key=lambda each: each.get("RANK", ""))
        for name, host in hosts.hosts.items()
    }


def printed(host: Host) -> Iterator[Variables]:
    for line in host.output.splitlines():
        if line.startswith("FOUND "):
            yield json.loads(line.removeprefix("FOUND "))


def rank(hosts: Hosts, number: int, *, per_host: int = 1) -> Variables:
    """The variables that torchrun sets, whatever has started the rank."""
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(2 * per_host),
        "LOCAL_RANK": str(number % per_host),
        "LOCAL_WORLD_SIZE": str(per_host),
        **master(hosts),
    }


def master(hosts: Hosts) -> Variables:
    """What also the hosts beside the distribution have."""
    return {
        "MASTER_ADDR": hosts.addresses["algo-3"],
        "MASTER_PORT": str(hosts.port_base + 7),
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "parallel",
    [ParallelPart(), ParallelPart(partitions=2, microbatches=4)],
    ids=["data parallel", "model parallel"],
)
def test_the_train_group_alone_is_torchruns_cluster(start: Start, parallel: ParallelPart) -> None:
    hosts = start(Launch.TORCHRUN, processes_per_host=2, parallel=parallel)

    def expected(number: int) -> Variables:
        return {**rank(hosts, number, per_host=2), "LAUNCHER_PARALLEL": parallel.to_json()}

    assert found(hosts) == {
        "algo-1": [master(hosts)],
        "algo-2": [master(hosts)],
        "algo-3": [expected(0), expected(1)],
        "algo-4": [expected(2), expected(3)],
    }


@pytest.mark.long
@needs_mpirun
def test_the_train_group_alone_is_the_world_of_mpi(start: Start) -> None:
    hosts = start(Launch.MPI, processes_per_host=2)
    world = {
        "OMPI_COMM_WORLD_RANK": "RANK",
        "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "LOCAL_WORLD_SIZE",
    }
    seen = found(hosts)
    assert seen["algo-1"] == seen["algo-2"] == [master(hosts)]
    for name, numbers in {"algo-3": (0, 1), "algo-4": (2, 3)}.items():
        for number, variables in zip(numbers, seen[name], strict=True):
            expected = rank(hosts, number, per_host=2)
            expected |= {theirs: expected[ours] for theirs, ours in world.items()}
            assert expected.items() <= variables.items()


@pytest.mark.long
def test_the_train_group_alone_is_the_mirrored_cluster(start: Start) -> None:
    hosts = start(Launch.MULTI_WORKER_MIRRORED)
    # TensorFlow binds every address, so each host of a shared network has ports of its own.
    workers = [
        f"{hosts.addresses[name]}:{hosts.port_base + 20 + 2 * index}"
        for index, name in enumerate(hosts.hosts)
        if name in ("algo-3", "algo-4")
    ]
    seen = found(hosts)
    configs = {name: json.loads(each.pop("TF_CONFIG", "null")) for name, (each,) in seen.items()}
    assert configs == {
        "algo-1": None,
        "algo-2": None,
        "algo-3": {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}},
        "algo-4": {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 1}},
    }
    assert seen == {
        "algo-1": [master(hosts)],
        "algo-2": [master(hosts)],
        "algo-3": [rank(hosts, 0)],
        "algo-4": [rank(hosts, 1)],
    }


@pytest.mark.long
def test_the_train_group_alone_is_the_cluster_of_jax(start: Start) -> None:
    """The devices of a host are the user's choice, which reaches the ranks as it is."""
    devices = {"JAX_LOCAL_DEVICE_IDS": "0,1"}
    hosts = start(Launch.JAX, devices)
    coordinator = f"{hosts.addresses['algo-3']}:{hosts.port_base + 7}"

    def expected(number: int) -> Variables:
        jax = {
            "JAX_COORDINATOR_ADDRESS": coordinator,
            "JAX_NUM_PROCESSES": "2",
            "JAX_PROCESS_ID": str(number),
        }
        keras = {
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": coordinator,
            "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
            "KERAS_DISTRIBUTION_PROCESS_ID": str(number),
        }
        return {**rank(hosts, number), **jax, **keras, **devices}

    assert found(hosts) == {
        "algo-1": [{**master(hosts), **devices}],
        "algo-2": [{**master(hosts), **devices}],
        "algo-3": [expected(0)],
        "algo-4": [expected(1)],
    }


# Parameter servers -------------------------------------------------------------------------------

PORT = 7790
SHARED = {f"algo-{number}": f"127.9.0.{number}" for number in range(1, 5)}
#: By the server group, and whether hosts share one network: the tasks of the cluster.
CLUSTERS = {
    ("ps", False): {
        "chief": ["algo-1:7790"],
        "worker": ["algo-2:7790"],
        "ps": ["algo-3:7790", "algo-4:7790"],
    },
    ("ps", True): {
        "chief": ["127.9.0.1:10020"],
        "worker": ["127.9.0.2:10022"],
        "ps": ["127.9.0.3:10024", "127.9.0.4:10026"],
    },
    (None, False): {
        "chief": ["algo-1:7790"],
        "worker": ["algo-2:7790"],
        "ps": ["algo-1:7791", "algo-2:7791"],
    },
    (None, True): {
        "chief": ["127.9.0.1:10020"],
        "worker": ["127.9.0.2:10022"],
        "ps": ["127.9.0.1:10021", "127.9.0.2:10023"],
    },
}
IDS = ["groups", "groups on one machine", "no servers' group", "no servers' group, one machine"]


@pytest.mark.parametrize(("given", "cluster"), list(CLUSTERS.items()), ids=IDS)
def test_parameter_servers_have_one_cluster_and_a_task_each(
    tmp_path: Path,
    given: tuple[str | None, bool],
    cluster: dict[str, list[str]],
) -> None:
    group, shares_network = given

    def config(make: Callable[[Environment], dict[str, str]], host: str) -> dict[str, object]:
        return json.loads(make(here(tmp_path, group, host, shares_network))["TF_CONFIG"])

    tasks = [(chief_config, "algo-1", "chief", 0), (worker_config, "algo-2", "worker", 0)]
    servers = ["algo-3", "algo-4"] if group else ["algo-1", "algo-2"]
    tasks += [(server_config, host, "ps", index) for index, host in enumerate(servers)]
    for make, host, task, index in tasks:
        expected = {"cluster": cluster, "task": {"type": task, "index": index}}
        assert config(make, host) == expected


@pytest.mark.parametrize("group", ["ps", None])
def test_the_job_waits_for_the_chief_and_the_chief_for_the_servers(
    tmp_path: Path, group: str | None
) -> None:
    environment = here(tmp_path, group, "algo-1", False)
    assert environment.awaited_hosts == {"algo-1"}
    assert environment.prerequisite_hosts == ({"algo-3", "algo-4"} if group else set())


def test_beside_hosts_that_run_the_script_the_job_waits_for_those_and_the_chief(
    tmp_path: Path,
) -> None:
    """The workers serve until the job has ended, so it must not wait for them."""
    members = {"data_group": ["algo-1"], "train_group": ["algo-2", "algo-3", "algo-4"]}
    document = JobDocument(
        roles=dict.fromkeys(members, Role.SCRIPT),
        trainer=TrainerPart(
            entry_point="train.py", launch=Launch.PARAMETER_SERVER, group="train_group"
        ),
        scripts={group: ScriptPart() for group in members},
    )
    environment = read(tmp_path, members, document, "algo-2")
    assert environment.awaited_hosts == {"algo-1", "algo-2"}
    (notice,) = WaitNotice(environment, interval=0.0).due({"algo-2"}, now=0.0)
    assert (notice["waits_for"], notice["ended_group"]) == ("algo-1", "train_group")


def here(folder: Path, group: str | None, host: str, shares_network: bool) -> Environment:
    """The environment of a host of a job of parameter servers: two train hosts, and others."""
    members = {"train": ["algo-1", "algo-2"], "ps": ["algo-3", "algo-4"]}
    members = members if group else {"train": ["algo-1", "algo-2"]}
    settings = {"server_group": group} if group else {}
    document = JobDocument(
        roles={name: Role.TRAIN if name == "train" else Role.COMMAND for name in members},
        trainer=TrainerPart(
            entry_point="train.py", launch=Launch.PARAMETER_SERVER, settings=settings
        ),
    )
    shared = {ADDRESSES_VARIABLE: json.dumps(SHARED), PORT_BASE_VARIABLE: "10000"}
    return read(folder, members, document, host, **(shared if shares_network else {}))


def read(
    folder: Path,
    members: dict[str, list[str]],
    document: JobDocument,
    host: str,
    **variables: str,
) -> Environment:
    """The environment of a host of a job with these hosts in its groups."""
    config = {
        "current_host": host,
        "current_group_name": next(name for name, hosts in members.items() if host in hosts),
        "hosts": [each for hosts in members.values() for each in hosts],
        "instance_groups": [
            {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": hosts}
            for name, hosts in members.items()
        ],
    }
    environ = {"SM_RESOURCE_CONFIG": json.dumps(config), **variables}
    return Environment.read(MlPaths(folder), environ, document)
