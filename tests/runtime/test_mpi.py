"""MPI over the train group: real mpirun, daemons and ranks; hosts are processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from engine_processes import WORKER, kill, processes
from hosts import Hosts
from needs import needs_mpirun
from programs import ADD_UP, PIPELINE, READER
from waiting import wait_until

from launcher.runtime import mpirun_command
from launcher.shared import Launch

MakeHosts = Callable[..., Hosts]

#: All add up their ranks through MPI's own library; each says who it is.
SUM = (
    ADD_UP
    + """
import sys
print(
    "rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"],
    "local", os.environ["LOCAL_RANK"], "of", os.environ["LOCAL_WORLD_SIZE"],
    "on", os.environ["SM_CURRENT_HOST"], "sum", total.value, sys.argv[1:],
)
import atexit
atexit.register(mpi.MPI_Finalize)
"""
)
#: Ends by regular means, so at the exit MPI would wait for ranks that wait for others.
SUM_AND_RAISE = (
    SUM
    + """
if os.environ["RANK"] == "3":
    raise ValueError("rank three has enough")
mpi.MPI_Barrier(world)
"""
)
SUM_AND_WAIT = (
    SUM
    + """
print("waits", os.environ["RANK"], os.getpid())
if os.environ["RANK"] != "0":
    mpi.MPI_Barrier(world)
import time
time.sleep(600)
"""
)
WAIT = """
import os, time
print("waits", os.environ["RANK"], os.getpid())
time.sleep(600)
"""
#: Rank 0 saves for a while when it is told to stop; the others end at once.
SAVE = """
import os, signal, sys, time
def save(*_):
    time.sleep(2)
    print("saved", os.environ["RANK"])
    sys.exit(0)
if os.environ["RANK"] == "0":
    signal.signal(signal.SIGTERM, save)
print("waits", os.environ["RANK"], os.getpid())
time.sleep(600)
"""
TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "sum", int(total))
dist.destroy_process_group()
"""


SAMPLES = 400
SLOW = PIPELINE.replace("103", str(SAMPLES)).replace(
    "noise = ", "import time; time.sleep(0.02)\n        noise = "
)
READ = """
from launcher.data import DataLoader
for batch in DataLoader("pipeline:train_set", batch_size=1, shuffle=True, seed=3):
    print("label", int(batch["label"][0]), flush=True)
"""


def start(make_hosts: MakeHosts, script: str, pipeline: str = PIPELINE, **options: object) -> Hosts:
    options = {"train": 2, "processes_per_host": 2, "launch": Launch.MPI, **options}
    hosts = make_hosts({"train.py": script, "pipeline.py": pipeline}, **options)
    hosts.start()
    return hosts


def said(hosts: Hosts, word: str) -> list[str]:
    """The lines of all hosts that begin with a word, sorted."""
    return sorted(re.findall(rf"^{word}\b.*$", hosts.output(), re.MULTILINE))


def reading(make_hosts: MakeHosts) -> Hosts:
    """Four ranks that read an epoch from two data hosts, and have a tenth of it."""
    hosts = start(make_hosts, READ, SLOW, data=2)
    wait_until(lambda: len(said(hosts, "label")) >= SAMPLES / 10, what="a tenth of the epoch")
    return hosts


def wait_for_ranks(hosts: Hosts) -> dict[int, int]:
    """The process of each rank, once all four are there."""
    wait_until(lambda: len(said(hosts, "waits")) == 4, what="four ranks")
    return {int(rank): int(pid) for _, rank, pid in map(str.split, said(hosts, "waits"))}


# Running ---------------------------------------------------------------------------------------


@pytest.mark.long
@needs_mpirun
def test_ranks_of_all_train_hosts_compute_together(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SUM, data=1, hyperparameters={"sign": ": ; $HOME 'x"})
    assert set(hosts.wait().values()) == {0}, hosts.output()
    arguments = """['--sign', ": ; $HOME 'x"]"""
    for name, ranks in {"algo-2": (0, 1), "algo-3": (2, 3)}.items():
        lines = [line for line in hosts[name].output.splitlines() if line.startswith("rank ")]
        assert sorted(lines) == [
            f"rank {rank} of 4 local {rank % 2} of 2 on {name} sum 6 {arguments}" for rank in ranks
        ]


@needs_mpirun
@pytest.mark.slow
def test_one_train_host_needs_no_daemon(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SUM, train=1)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert len(said(hosts, "rank")) == 2


@needs_mpirun
@pytest.mark.slow
def test_batches_reach_the_ranks_as_they_do_under_torchrun(make_hosts: MakeHosts) -> None:
    seen = []
    for launch in (Launch.MPI, Launch.TORCHRUN):
        hosts = start(make_hosts, READER, data=1, launch=launch)
        assert set(hosts.wait().values()) == {0}, hosts.output()
        seen.append(said(hosts, "rank=[0-9]"))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 8  # four ranks, two epochs


@needs_mpirun
@pytest.mark.slow
def test_torch_finds_its_peers(make_hosts: MakeHosts) -> None:
    pytest.importorskip("torch")
    hosts = start(make_hosts, TORCH)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert said(hosts, "rank") == [f"rank {rank} of 4 sum 6" for rank in range(4)]


# Failing ---------------------------------------------------------------------------------------


@pytest.mark.long
@needs_mpirun
def test_a_rank_that_is_killed_fails_the_job_with_its_name(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, WAIT)
    os.kill(wait_for_ranks(hosts)[2], signal.SIGKILL)
    assert set(hosts.wait().values()) == {1}, hosts.output()
    assert (hosts["algo-2"].failure or "").startswith(
        "host algo-2 (train_group), rank 2: killed by SIGKILL"
    )
    assert hosts["algo-1"].failure is None
    assert hosts.processes() == []


@needs_mpirun
@pytest.mark.slow
def test_an_exception_ends_ranks_that_wait_in_mpi(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SUM_AND_RAISE)
    assert set(hosts.wait().values()) == {1}, hosts.output()
    assert (hosts["algo-2"].failure or "").startswith(
        "host algo-2 (train_group), rank 3: ValueError: rank three has enough\nTraceback"
    )
    assert hosts.processes() == []


@needs_mpirun
@pytest.mark.slow
def test_a_lost_host_ends_the_others(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, WAIT)
    wait_for_ranks(hosts)
    hosts.kill("algo-2")
    assert hosts.wait()["algo-1"] == 1
    assert "algo-2" in hosts["algo-1"].output
    assert hosts.processes() == []


@pytest.mark.long
@needs_mpirun
def test_a_killed_data_worker_changes_nothing(make_hosts: MakeHosts) -> None:
    hosts = reading(make_hosts)
    kill(*processes(hosts, WORKER, "algo-1"))
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert hosts["algo-1"].events("worker_died")
    labels = [int(line.removeprefix("label ")) for line in said(hosts, "label")]
    assert sorted(labels) == list(range(SAMPLES))
    assert hosts.processes() == []


@pytest.mark.long
@needs_mpirun
def test_a_lost_data_host_fails_the_job_with_its_name(make_hosts: MakeHosts) -> None:
    hosts = reading(make_hosts)
    hosts.kill("algo-1")
    codes = hosts.wait()
    assert codes["algo-3"] == codes["algo-4"] == 1, hosts.output()
    assert 'origin="host algo-1 (data_group): the host died"' in hosts.output()
    assert len(said(hosts, "label")) < SAMPLES
    assert hosts.processes() == []


@needs_mpirun
@pytest.mark.slow
def test_what_mpirun_complains_of_is_the_reason(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SUM, mpi_options=("--no-such-option",))
    assert set(hosts.wait().values()) == {1}, hosts.output()
    reason = hosts["algo-1"].failure or ""
    assert reason.startswith("host algo-1 (train_group): mpirun ended: exit code 1")
    assert "no-such-option" in reason


@pytest.mark.parametrize(
    ("mpirun", "reason"),
    [
        pytest.param(None, "MPI needs Open MPI 4, and mpirun is not on PATH", id="none"),
        pytest.param(
            "echo HYDRA build details",
            "MPI needs Open MPI 4, and `mpirun --version` prints 'HYDRA",
            id="other",
        ),
    ],
)
def test_without_open_mpi_the_reason_names_it(
    make_hosts: MakeHosts, tmp_path: Path, mpirun: str | None, reason: str
) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    if mpirun:
        (path / "mpirun").write_text(f"#!/bin/sh\n{mpirun}\n")
        (path / "mpirun").chmod(0o755)
    hosts = start(make_hosts, SUM, environment={"PATH": str(path)})
    assert set(hosts.wait().values()) == {1}
    assert any(reason in (host.failure or "") for host in hosts.hosts.values()), hosts.output()


# Stopping --------------------------------------------------------------------------------------


@pytest.mark.long
@needs_mpirun
def test_a_stop_lets_a_rank_save_while_others_end_at_once(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SAVE)
    wait_for_ranks(hosts)
    hosts.terminate()
    assert set(hosts.wait().values()) == {143}, hosts.output()
    assert said(hosts, "saved") == ["saved 0"]
    assert hosts.processes() == []


@needs_mpirun
@pytest.mark.slow
def test_a_stop_ends_ranks_that_wait_in_mpi(make_hosts: MakeHosts) -> None:
    """Who dies without MPI_Finalize is a failure to mpirun, and not to the job."""
    hosts = start(make_hosts, SUM_AND_WAIT)
    wait_for_ranks(hosts)
    hosts.terminate()
    assert set(hosts.wait().values()) == {143}, hosts.output()
    assert hosts.processes() == []


# The port that starts daemons ------------------------------------------------------------------


@needs_mpirun
@pytest.mark.slow
def test_a_stranger_cannot_start_anything(make_hosts: MakeHosts, tmp_path: Path) -> None:
    hosts = start(make_hosts, WAIT)
    wait_for_ranks(hosts)
    address = (hosts.addresses["algo-2"], hosts.port_base + 3)
    with socket.create_connection(address, timeout=30) as stranger:
        stranger.recv(64)
        stranger.sendall(b"0" * 32 + b" " + b"0" * 64 + b"\n")
        with contextlib.suppress(ConnectionError):  # it was hung up on, sooner or later
            stranger.sendall(b'{"start": "touch %s/here"}\n' % str(tmp_path).encode())
            assert stranger.recv(64) == b""
    wait_until(lambda: hosts["algo-2"].events("connection_rejected"), what="the refusal")
    (refused,) = hosts["algo-2"].events("connection_rejected")
    assert refused["port"] == "start"
    assert not (tmp_path / "here").exists()


# The command -----------------------------------------------------------------------------------


def command(*custom: str, interface: str | None = "eth0", variables: Sequence[str] = ()) -> str:
    addresses, program = ["algo-2", "algo-3"], ["python", "-m", "rank"]
    return " ".join(mpirun_command(addresses, 2, interface, "/agent", custom, program, variables))


def test_the_command_names_hosts_and_interface() -> None:
    words = command()
    assert words.startswith("mpirun --allow-run-as-root --host algo-2:2,algo-3:2 -np 4 ")
    assert words.endswith(" python -m rank")
    assert "--mca btl_tcp_if_include eth0" in words
    assert "--mca oob_tcp_if_include eth0" in words
    assert "if_include" not in command(interface=None)


@pytest.mark.parametrize(
    ("custom", "replaced"),
    [
        pytest.param(("--bind-to", "core"), "--bind-to none", id="option"),
        pytest.param(("-bind-to", "core"), "--bind-to none", id="one dash"),
        pytest.param(("--mca", "pml", "ucx"), "--mca pml ob1", id="parameter"),
        pytest.param(("-mca", "btl", "tcp,self"), "--mca btl ^openib", id="parameter, one dash"),
        pytest.param(
            ("-mca", "btl_tcp_if_exclude", "lo,docker0"),
            "--mca btl_tcp_if_include eth0",
            id="networks that are excluded",
        ),
    ],
)
def test_the_users_options_replace_ours(custom: tuple[str, ...], replaced: str) -> None:
    assert replaced in command()
    assert replaced not in command(*custom)
    assert f"{' '.join(custom)} python" in command(*custom)


def test_networks_that_a_variable_excludes_replace_the_interface() -> None:
    """Open MPI refuses to have both."""
    words = command(variables=["PATH", "OMPI_MCA_oob_tcp_if_exclude"])
    assert "oob_tcp_if_include" not in words
    assert "--mca btl_tcp_if_include eth0" in words
