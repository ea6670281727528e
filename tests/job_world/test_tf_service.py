"""tf.data's service as a job's engine: what is read when its processes die, and how jobs end."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_processes import kill, processes, tf_servers
from hosts import Hosts
from waiting import wait_until

from launcher.shared import TF_ENGINE

MakeHosts = Callable[..., Hosts]
pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

LENGTH = 2000
#: Prints each element of three epochs as it comes; the files are what FILE divides.
SCRIPT = """
import os, sys, time
import tensorflow as tf
import launcher.data.tf as ltf

files = sorted(os.path.join(os.environ["FILES"], name) for name in os.listdir(os.environ["FILES"]))
start = time.monotonic()
pause = 0.002 * (1 + int(os.environ["RANK"]))

def distributed():
    dataset = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TextLineDataset, cycle_length=1).map(tf.strings.to_number)
    return ltf.distribute(dataset, sharding=os.environ["SHARDING"], max_outstanding_requests=4,
                          timeout=float(os.environ.get("TIMEOUT", 600)))

once = distributed()
for epoch in range(int(os.environ.get("EPOCHS", 1))):
    for element in once if "AGAIN" in os.environ else distributed():
        print(f"got {epoch} {int(element)} {time.monotonic() - start:.2f}", flush=True)
        time.sleep(pause)
print("read to the end", flush=True)
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(20):
        lines = range(number * 100, number * 100 + 100)
        (folder / f"{number:02}.txt").write_text("\n".join(map(str, lines)))
    return folder


def job(
    make_hosts: MakeHosts,
    files: Path,
    *,
    data: int = 2,
    train: int = 1,
    local_workers: int = 0,
    **variables: str,
) -> Hosts:
    return make_hosts(
        {"train.py": SCRIPT},
        data=data,
        train=train,
        local_workers=local_workers,
        engine=TF_ENGINE,
        start_timeout=500.0,
        environment={"FILES": str(files), "SHARDING": "auto", **variables},
    )


def read(hosts: Hosts, epoch: int = 0, host: str | None = None) -> Counter[int]:
    """What ranks have read in an epoch, of all hosts or of one."""
    output = hosts[host].output if host else hosts.output()
    lines = [line.split() for line in output.splitlines() if line.startswith("got ")]
    return Counter(int(number) for _, of, number, _ in lines if int(of) == epoch)


def gap(hosts: Hosts) -> float:
    """The longest wait for an element, in seconds."""
    lines = [line.split() for line in hosts.output().splitlines() if line.startswith("got ")]
    moments = [float(moment) for *_, moment in lines]
    return max(later - sooner for sooner, later in itertools.pairwise(moments))


def is_running(hosts: Hosts) -> bool:
    return all(h.process is not None and h.process.poll() is None for h in hosts.hosts.values())


def when_it_reads(hosts: Hosts, count: int = 400) -> None:
    wait_until(lambda: read(hosts).total() >= count or not is_running(hosts))
    assert is_running(hosts), hosts.output()


def outcome(hosts: Hosts) -> tuple[int, int]:
    """Wait for the end of a job that completes; return the elements lost and doubled."""
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert "read to the end" in hosts.output()
    counts = read(hosts)
    lost, doubled = LENGTH - len(counts), counts.total() - len(counts)
    print(f"{lost} lost, {doubled} doubled, blocked for {gap(hosts):.1f} s")
    assert hosts.processes() == []
    return lost, doubled


@pytest.mark.parametrize("again", [{}, {"AGAIN": "1"}], ids=["distributed anew", "read again"])
def test_each_epoch_is_read_exactly_and_nothing_is_left(
    make_hosts: MakeHosts, files: Path, again: dict[str, str]
) -> None:
    hosts = job(make_hosts, files, EPOCHS="2", **again)
    hosts.start()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    for epoch in range(2):
        assert read(hosts, epoch) == Counter(range(LENGTH))
    assert hosts.processes() == []


@pytest.mark.parametrize("sharding", ["file", "data"])
@pytest.mark.parametrize("count", [1, 2], ids=["one", "all"])
def test_when_workers_die_nothing_is_lost(
    make_hosts: MakeHosts, files: Path, sharding: str, count: int
) -> None:
    hosts = job(make_hosts, files, SHARDING=sharding)
    hosts.start()
    when_it_reads(hosts)
    kill(*tf_servers(hosts, "workers")[:count])
    lost, _ = outcome(hosts)
    assert lost == 0
    assert hosts.output().count("tf_server_died") == count


@pytest.mark.parametrize("count", [1, 2], ids=["one", "all"])
def test_with_dynamic_nothing_is_doubled_when_workers_die(
    make_hosts: MakeHosts, files: Path, count: int
) -> None:
    hosts = job(make_hosts, files, SHARDING="dynamic")
    hosts.start()
    when_it_reads(hosts)
    kill(*tf_servers(hosts, "workers")[:count])
    lost, doubled = outcome(hosts)
    assert doubled == 0
    assert lost < LENGTH


@pytest.mark.parametrize("sharding", ["auto", "dynamic"])
def test_when_the_dispatcher_dies_each_element_is_read_once(
    make_hosts: MakeHosts, files: Path, sharding: str
) -> None:
    hosts = job(make_hosts, files, SHARDING=sharding)
    hosts.start()
    when_it_reads(hosts)
    kill(*tf_servers(hosts, "dispatcher"))
    assert outcome(hosts) == (0, 0)


@pytest.mark.parametrize("data", [0, 1], ids=["alone", "with a data host"])
def test_train_hosts_prepare_elements_too_for_as_long_as_any_rank_reads(
    make_hosts: MakeHosts, files: Path, data: int
) -> None:
    """Rank 1 takes twice as long, and needs the worker beside rank 0 to its end."""
    hosts = job(make_hosts, files, data=data, train=2, local_workers=1)
    first, second = hosts.members["train_group"]
    hosts.start()
    wait_until(lambda: read(hosts, host=first).total() >= LENGTH or not is_running(hosts))
    assert is_running(hosts), hosts.output()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert read(hosts, host=first) == read(hosts, host=second) == Counter(range(LENGTH))
    assert hosts.processes() == []


def test_a_killed_worker_of_a_train_host_is_replaced(make_hosts: MakeHosts, files: Path) -> None:
    hosts = job(make_hosts, files, data=0, local_workers=2, SHARDING="file")
    hosts.start()
    when_it_reads(hosts)
    kill(tf_servers(hosts, "workers")[0])
    lost, _ = outcome(hosts)
    assert lost == 0
    assert hosts.output().count("tf_server_died") == 1


def test_a_worker_that_dies_again_and_again_fails_the_job(
    make_hosts: MakeHosts, files: Path
) -> None:
    hosts = job(make_hosts, files, data=1)
    hosts.start()
    when_it_reads(hosts)

    def has_ended_or_die() -> bool:
        kill(*tf_servers(hosts, "workers"))
        return not is_running(hosts)

    wait_until(has_ended_or_die)
    assert set(hosts.wait().values()) == {1}
    assert "the tf.data workers ended" in str(hosts["algo-1"].failure)
    assert "died 6 times within 30 s, last: killed by SIGKILL" in hosts["algo-1"].output
    assert "read to the end" not in hosts.output()
    assert hosts.processes() == []


def test_the_loss_of_a_data_host_fails_the_job(make_hosts: MakeHosts, files: Path) -> None:
    hosts = job(make_hosts, files)
    hosts.start()
    when_it_reads(hosts)
    hosts.kill("algo-1")
    assert hosts.wait()["algo-3"] == 1
    assert "read to the end" not in hosts.output()
    assert hosts.processes() == []


def test_a_batch_that_never_comes_fails_the_job(make_hosts: MakeHosts, files: Path) -> None:
    hosts = job(make_hosts, files, data=1, TIMEOUT="20")
    hosts.start()
    when_it_reads(hosts)
    for pid in tf_servers(hosts, "workers"):
        os.kill(pid, signal.SIGSTOP)
    assert hosts.wait()["algo-2"] == 1
    assert "no batch of train arrived within 20 s" in hosts.output()


@pytest.mark.parametrize("how", ["the end", "a failure", "a stop"])
def test_the_dispatchers_journal_goes_with_the_job(
    make_hosts: MakeHosts, files: Path, how: str
) -> None:
    hosts = job(make_hosts, files, data=1)
    hosts.start()
    when_it_reads(hosts)
    temporary = hosts["algo-2"].log.parent
    assert list(temporary.glob("launcher-tf-journal-*"))
    if how == "a failure":
        (rank,) = processes(hosts, "launcher.runtime.rank")
        os.kill(rank, signal.SIGKILL)
    elif how == "a stop":
        hosts.terminate()
    hosts.wait()
    assert list(temporary.glob("launcher-*")) == []


def test_a_loader_is_told_what_reads_this_engine(make_hosts: MakeHosts, files: Path) -> None:
    script = "from launcher.data import DataLoader\nlen(DataLoader('pipeline:train_set'))\n"
    hosts = make_hosts({"train.py": script}, data=1, engine=TF_ENGINE)
    hosts.start()
    assert hosts.wait()["algo-2"] == 1
    assert "launcher.data.tf.distribute(dataset)" in hosts.output()
