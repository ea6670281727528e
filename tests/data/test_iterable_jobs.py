"""Iterable datasets in whole jobs: the same batches in-process and served, whatever workers do."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hosts import Hosts
from made_hosts import MakeHosts

#: Shards of different lengths, in an order and with noise that are drawn.
STREAM = """
import random
import numpy as np
from launcher.data import shard

class Lines:
    def __iter__(self):
        index, count = shard()
        numbers = [n for n in range(150) if n % (count + 1) % count == index]
        random.shuffle(numbers)
        for number in numbers:
            yield {"id": number, "noise": np.random.rand(3), "name": f"line {number}"}

def train_set():
    return Lines()
"""

READER = """
import hashlib, os
from launcher.data import DataLoader, LoaderOptions

options = LoaderOptions(steps=24)
loader = DataLoader("pipeline:train_set", batch_size=4, seed=3, shards=4, options=options)
for epoch in range(2):
    digest = hashlib.sha256()
    for batch in loader:
        digest.update(batch["id"].tobytes() + batch["noise"].tobytes())
        digest.update(repr(batch["name"]).encode())
        print("ids", epoch, *batch["id"].tolist(), flush=True)
    print(f"rank={os.environ['RANK']} epoch={epoch} sha256={digest.hexdigest()}", flush=True)
"""


def files(stream: str = STREAM, reader: str = READER) -> dict[str, str]:
    return {"pipeline.py": stream, "train.py": reader}


def run(hosts: Hosts) -> Hosts:
    hosts.run()
    return hosts


def ids(hosts: Hosts, epoch: int = 0) -> Counter[int]:
    lines = re.findall(rf"^ids {epoch} ([\d ]+)$", hosts.output(), re.MULTILINE)
    return Counter(int(number) for line in lines for number in line.split())


@pytest.mark.long
def test_shards_give_the_same_batches_in_process_and_served(make_hosts: MakeHosts) -> None:
    alone = run(make_hosts(files(), train=2))
    served = run(make_hosts(files(), data=2, train=2))
    assert len(alone.hashes()) == 4  # two ranks, two epochs, each with bytes of its own
    assert served.hashes() == alone.hashes()
    assert set(ids(served)) == set(range(150))
    lines = [line for host in served.hosts.values() for line in host.events("data_epoch")]
    assert ids(served).total() == 150 + sum(int(str(e["pads"])) for e in lines if e["epoch"] == 0)


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
from launcher.data import DataLoader, LoaderOptions

loader = DataLoader("pipeline:train_set", batch_size=2, options=LoaderOptions(steps=5))
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
