"""tf.data's service as a job's engine: what is read when its processes die, and how jobs end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_processes import kill, processes, tf_parents, tf_servers
from hosts import Hosts
from made_hosts import MakeHosts
from waiting import PATIENCE, wait_until

from launcher.shared import TF_ENGINE, Ports

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

LENGTH = 2000
RANK = "launcher.runtime.launch.rank"
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


def seconds_until_it_listens(hosts: Hosts, victim: int) -> float:
    """Kill the worker of the first data host, or its parent; wait until its port is open again."""
    (worker,) = tf_servers(hosts, "workers")
    kill(victim)
    killed = time.monotonic()
    port = Ports(hosts.port_base).tf_worker
    while time.monotonic() - killed < PATIENCE:
        with contextlib.suppress(OSError):
            if (found := tf_servers(hosts, "workers")) and worker not in found:
                socket.create_connection((hosts.addresses["algo-1"], port), 1).close()
                return time.monotonic() - killed
    raise AssertionError(hosts.output())


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


@pytest.mark.parametrize("sharding", ["auto", "file", "data", "dynamic"])
def test_each_epoch_is_read_exactly_and_nothing_is_left(
    make_hosts: MakeHosts, files: Path, sharding: str
) -> None:
    hosts = job(make_hosts, files, EPOCHS="2", SHARDING=sharding)
    hosts.run()
    for epoch in range(2):
        assert read(hosts, epoch) == Counter(range(LENGTH))
    assert hosts.processes() == []


def test_a_dataset_that_is_read_again_gives_the_next_epoch(
    make_hosts: MakeHosts, files: Path
) -> None:
    hosts = job(make_hosts, files, EPOCHS="2", AGAIN="1")
    hosts.run()
    assert read(hosts, 0) == read(hosts, 1) == Counter(range(LENGTH))


def test_each_rank_reads_a_dynamic_job_of_its_own(make_hosts: MakeHosts, files: Path) -> None:
    """Rank 1 takes twice as long; of a job that both shared it would get less."""
    hosts = job(make_hosts, files, train=2, SHARDING="dynamic")
    hosts.run()
    first, second = hosts.members["train_group"]
    assert read(hosts, host=first) == read(hosts, host=second) == Counter(range(LENGTH))


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


@pytest.mark.parametrize(
    ("victims", "role", "host", "cause"),
    [
        (tf_servers, "workers", "algo-1", "died 6 times within 30 s, last: killed by SIGKILL"),
        (tf_servers, "dispatcher", "algo-2", "died 6 times within 30 s, last: killed by SIGKILL"),
        (tf_parents, "workers", "algo-1", "ended 2 times within 30 s, last: killed by SIGKILL"),
    ],
    ids=["a worker", "the dispatcher", "a parent"],
)
def test_a_server_that_dies_again_and_again_fails_the_job(
    make_hosts: MakeHosts,
    files: Path,
    victims: Callable[..., list[int]],
    role: str,
    host: str,
    cause: str,
) -> None:
    hosts = job(make_hosts, files, data=1, EPOCHS="100")
    hosts.start()
    when_it_reads(hosts)

    def has_ended_or_die() -> bool:
        kill(*victims(hosts, role))
        return not is_running(hosts)

    wait_until(has_ended_or_die)
    assert hosts.wait()["algo-2"] == 1
    assert f"the tf.data {role} ended" in str(hosts[host].failure)
    assert cause in f"{hosts[host].output}{hosts[host].failure}"
    assert "read to the end" not in hosts.output()
    assert hosts.processes() == []


@pytest.mark.parametrize("role", ["workers", "dispatcher"])
def test_a_parent_that_dies_is_replaced_with_its_servers(
    make_hosts: MakeHosts, files: Path, role: str
) -> None:
    hosts = job(make_hosts, files, data=1)
    hosts.start()
    when_it_reads(hosts)
    kill(*tf_parents(hosts, role))
    lost, doubled = outcome(hosts)
    assert lost == 0
    assert doubled == 0 or role == "workers"
    host = "algo-1" if role == "workers" else "algo-2"
    (restart,) = hosts[host].events("service_restarted")
    assert restart["service"] == f"tf.data {role}"


def test_how_soon_a_worker_is_back_is_printed(make_hosts: MakeHosts, files: Path) -> None:
    """A fork is back at once; a new parent imports TensorFlow first."""
    hosts = job(make_hosts, files, data=1, EPOCHS="2")
    hosts.start()
    when_it_reads(hosts)
    fork = seconds_until_it_listens(hosts, *tf_servers(hosts, "workers"))
    parent = seconds_until_it_listens(hosts, *tf_parents(hosts, "workers"))
    lost, _ = outcome(hosts)
    assert lost == 0
    print(f"a worker listened again after {fork:.2f} s, that of a new parent after {parent:.2f} s")


def test_a_job_that_starts_again_reads_the_epoch_from_its_start(
    make_hosts: MakeHosts, files: Path
) -> None:
    """With the first attempt's journal, TensorFlow would read nothing."""
    hosts = job(make_hosts, files)
    hosts.start()
    when_it_reads(hosts)
    kill(*processes(hosts, RANK))
    assert hosts.wait()["algo-3"] == 1
    before = read(hosts)
    assert before.total() < LENGTH
    hosts.run()
    assert read(hosts) - before == Counter(range(LENGTH))


def test_a_batch_that_never_comes_fails_the_job(make_hosts: MakeHosts, files: Path) -> None:
    hosts = job(make_hosts, files, data=1, TIMEOUT="40")
    hosts.start()
    when_it_reads(hosts)
    for pid in tf_servers(hosts, "workers"):
        os.kill(pid, signal.SIGSTOP)
    assert hosts.wait()["algo-2"] == 1
    (awaited,) = hosts["algo-2"].events("data_awaited")
    assert awaited["what"] == "a batch of train"
    assert awaited["seconds"] >= 30
    assert "no batch of train arrived within 40 s" in hosts.output()


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
        (rank,) = processes(hosts, "launcher.runtime.launch.rank")
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


def test_distribute_is_refused_in_a_job_of_launchers_engine(make_hosts: MakeHosts) -> None:
    script = """
import tensorflow as tf
import launcher.data.tf
launcher.data.tf.distribute(tf.data.Dataset.range(2))
"""
    pipeline = "def train_set():\n    return [1, 2]\n"
    hosts = make_hosts({"train.py": script, "pipeline.py": pipeline}, data=1, start_timeout=500.0)
    hosts.start()
    assert hosts.wait()["algo-2"] == 1
    assert 'this job has data_service.engine "launcher"' in str(hosts["algo-2"].failure)


#: Prints whether the graph of each dataset that the dispatcher was given compresses its elements.
COMPRESSION = """
import os
from pathlib import Path
import tensorflow as tf
import launcher.data.tf
from launcher.runtime.host.environment import TF_SERVICE_VARIABLE

numbers = tf.data.Dataset.range(2)
print("ours", sorted(launcher.data.tf.distribute(numbers).as_numpy_iterator()))
service = f"grpc://{os.environ[TF_SERVICE_VARIABLE]}"
theirs = tf.data.experimental.service.distribute("parallel_epochs", service)
print("theirs", sorted(numbers.apply(theirs).as_numpy_iterator()))
files = Path(os.environ["TMPDIR"]).glob("launcher-tf-journal-*/datasets/*")
graphs = [path.read_bytes() for path in sorted(files, key=lambda path: path.stat().st_mtime)]
print("compressed", [b"CompressElement" in graph for graph in graphs])
"""


def test_elements_are_not_compressed(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({"train.py": COMPRESSION}, data=1, engine=TF_ENGINE, start_timeout=500.0)
    hosts.run()
    assert "compressed [False, True]" in hosts["algo-2"].output
