"""Iterable datasets in whole jobs: the same batches in-process and served, whatever workers do."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hosts import Host, Hosts
from waiting import wait_until

MakeHosts = Callable[..., Hosts]

#: Shards of different lengths, in an order and with noise that are drawn.
STREAM = """
import random
import time
import numpy as np
from launcher.data import shard

class Lines:
    def __iter__(self):
        index, count = shard()
        numbers = [n for n in range(150) if n % (count + 1) % count == index]
        random.shuffle(numbers)
        for number in numbers:
            time.sleep(PACE)
            yield {"id": number, "noise": np.random.rand(3), "name": f"line {number}"}

def train_set():
    return Lines()
"""

READER = """
import hashlib, os
from launcher.data import DataLoader

loader = DataLoader("pipeline:train_set", batch_size=4, seed=3, shards=4, steps=24)
for epoch in range(2):
    digest = hashlib.sha256()
    for batch in loader:
        digest.update(batch["id"].tobytes() + batch["noise"].tobytes())
        digest.update(repr(batch["name"]).encode())
        print("ids", epoch, *batch["id"].tolist(), flush=True)
    print(f"rank={os.environ['RANK']} epoch={epoch} sha256={digest.hexdigest()}", flush=True)
"""


def files(pace: float = 0.0, stream: str = STREAM, reader: str = READER) -> dict[str, str]:
    return {"pipeline.py": stream.replace("PACE", str(pace)), "train.py": reader}


def run(hosts: Hosts) -> Hosts:
    hosts.start()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    return hosts


def hashes(hosts: Hosts) -> set[str]:
    found = set(re.findall(r"^rank=\d+ epoch=\d+ sha256=\w+$", hosts.output(), re.MULTILINE))
    assert found, hosts.output()
    return found


def ids(hosts: Hosts, epoch: int = 0) -> Counter[int]:
    lines = re.findall(rf"^ids {epoch} ([\d ]+)$", hosts.output(), re.MULTILINE)
    return Counter(int(number) for line in lines for number in line.split())


@pytest.mark.long
def test_shards_give_the_same_batches_in_process_and_served(make_hosts: MakeHosts) -> None:
    alone = run(make_hosts(files(), train=2))
    served = run(make_hosts(files(), data=2, train=2))
    assert len(hashes(alone)) == 4  # two ranks, two epochs, each with bytes of its own
    assert hashes(served) == hashes(alone)
    assert set(ids(served)) == set(range(150))
    lines = [line for host in served.hosts.values() for line in host.events("data_epoch")]
    assert ids(served).total() == 150 + sum(int(str(e["pads"])) for e in lines if e["epoch"] == 0)


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGSTOP, marks=pytest.mark.slow),  # falls silent
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),  # leaves
    ],
    ids=lambda fault: fault.name,
)
def test_a_worker_lost_within_its_shards_changes_nothing(
    make_hosts: MakeHosts, fault: signal.Signals
) -> None:
    calm = run(make_hosts(files(), train=2))
    disturbed = make_hosts(files(pace=0.005), data=2, train=2)
    disturbed.start()
    leader = disturbed["algo-3"]
    wait_until(lambda: leader.output.count("ids 0") > 3)
    left = _lose_worker(leader, fault)
    while left and not left["leases"]:  # it was between two of its shards
        left = _lose_worker(leader, fault)
    train = [disturbed[name].wait() for name in ("algo-3", "algo-4")]
    assert train == [0, 0], disturbed.output()
    assert hashes(disturbed) == hashes(calm)


def _lose_worker(leader: Host, fault: signal.Signals) -> Any:
    """Send a fault to a worker that still is there; of a killed one, the event of its end."""

    def seen(event: str) -> dict[Any, Any]:
        return {each["pid"]: each for each in leader.events(event)}

    pid = wait_until(lambda: seen("worker_joined").keys() - seen("worker_left").keys()).pop()
    os.kill(pid, fault)
    return wait_until(lambda: seen("worker_left").get(pid)) if fault is signal.SIGKILL else None


@pytest.mark.slow
def test_a_dispatcher_that_dies_within_the_shards_changes_nothing(make_hosts: MakeHosts) -> None:
    calm = run(make_hosts(files(), train=2))
    disturbed = make_hosts(files(pace=0.005), data=2, train=2)
    disturbed.start()
    wait_until(lambda: disturbed["algo-3"].output.count("ids 0") > 3)
    (pid,) = [
        pid
        for pid in disturbed.processes("algo-3")
        if b"launcher.data.dispatcher" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(pid, signal.SIGKILL)
    assert set(disturbed.wait().values()) == {0}, disturbed.output()
    assert hashes(disturbed) == hashes(calm)


ENDLESS = """
import itertools
import random

def train_set():
    for number in itertools.count():
        yield number, random.random()
"""


@pytest.mark.long
def test_an_endless_dataset_has_epochs_of_so_many_steps(make_hosts: MakeHosts) -> None:
    reader = """
from launcher.data import DataLoader

loader = DataLoader("pipeline:train_set", batch_size=2, steps=5)
assert len(loader) == 5
seen = [[batch[0].tolist() for batch in loader] for _ in range(3)]
coins = {float(batch[1][0]) for batch in loader}
assert seen == [[[2 * i, 2 * i + 1] for i in range(5)]] * 3, seen
assert len(coins) == 5
print("rank=0 epoch=0 sha256=0", flush=True)
"""
    hosts = run(make_hosts(files(stream=ENDLESS, reader=reader), data=1))
    epochs = hosts["algo-2"].events("data_epoch")
    assert [(e["steps"], e["samples"], e["pads"]) for e in epochs] == [(5, 10, 0)] * 4


@pytest.mark.long
def test_an_iterator_that_raises_fails_the_job_with_its_shard_and_place(
    make_hosts: MakeHosts,
) -> None:
    broken = STREAM.replace("yield {", "assert number != 77, 'bad line'\n            yield {")
    hosts = make_hosts(files(stream=broken), data=1, train=2)
    hosts.start()
    codes = hosts.wait()
    assert 1 in (codes["algo-2"], codes["algo-3"])
    failures = "".join(host.failure or "" for host in hosts.hosts.values())
    assert re.search(
        r"pipeline:train_set raised AssertionError in shard \d of 4, after \d+ samples of it: "
        r"bad line \(on data host algo-1\)",
        failures,
    ), failures
    assert "assert number != 77" in failures


RESUME = """
import hashlib, json, os, pathlib
from launcher.data import DataLoader

before, after = (pathlib.Path(os.environ[name]) for name in ("BEFORE", "AFTER"))
loader = DataLoader("pipeline:train_set", batch_size=4, seed=3, shards=4, steps=24)
if before.exists():
    loader.load_state_dict(json.loads(before.read_text()))
for step, batch in enumerate(loader, 1):
    sha256 = hashlib.sha256(batch["noise"].tobytes()).hexdigest()
    print("rank=" + os.environ["RANK"], "epoch=0", f"sha256={sha256}", flush=True)
    if step == int(os.environ["STOP"]):
        break
if os.environ["RANK"] == "0":
    state = json.dumps(loader.state_dict())
    assert len(state) < 500
    after.write_text(state)
"""


@pytest.mark.slow
def test_reading_resumes_where_a_state_was_taken(make_hosts: MakeHosts, tmp_path: Path) -> None:
    def part(number: int, stop: int, data: int) -> list[str]:
        before, after = (str(tmp_path / f"state-{n}") for n in (number - 1, number))
        variables = {"BEFORE": before, "AFTER": after, "STOP": str(stop)}
        hosts = make_hosts(files(reader=RESUME), data=data, train=2, environment=variables)
        return sorted(hashes(run(hosts)))

    whole = part(10, 99, 0)
    assert len(whole) == 48
    assert sorted(part(1, 13, 1) + part(2, 8, 1) + part(3, 99, 0)) == whole


UNMODIFIED = """
import torch
from torch.utils.data import IterableDataset, get_worker_info

class Numbers(IterableDataset):
    def __len__(self):
        return 150

    def __iter__(self):
        info = get_worker_info()
        for number in range(info.id, 150, info.num_workers):
            yield {"id": number, "noise": torch.rand(3), "name": str(number)}

def train_set():
    return Numbers()
"""


@pytest.mark.slow
def test_an_unmodified_dataset_of_torch_is_served(make_hosts: MakeHosts) -> None:
    pytest.importorskip("torch")
    reader = "import torch\n" + READER.replace("tobytes", "numpy().tobytes").replace(
        ", steps=24", ""
    )
    alone = run(make_hosts(files(stream=UNMODIFIED, reader=reader), train=2))
    served = run(make_hosts(files(stream=UNMODIFIED, reader=reader), data=2, train=2))
    assert hashes(served) == hashes(alone)
    assert ids(served) == Counter(range(150))
