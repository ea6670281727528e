"""The data service through tf.data: each batch once, in order, when its processes die meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_processes import DISPATCHER, WORKER, kill, processes
from hosts import Hosts
from waiting import wait_until

MakeHosts = Callable[..., Hosts]
pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.long]

STEPS = 400
PIPELINE = f"""
import time
import numpy as np

class Samples:
    def __len__(self):
        return {STEPS}
    def __getitem__(self, index):
        time.sleep(0.005)
        return np.full(250_000, index, np.float32)

def train_set():
    return Samples()
"""
SCRIPT = """
import time
from launcher.data import DataLoader
from launcher.data.tf import from_service

for number, batch in enumerate(from_service(DataLoader("pipeline:train_set", batch_size=1))):
    assert (batch.numpy() == batch[0, 0].numpy()).all()
    print(f"got {int(batch[0, 0])}", flush=True)
    time.sleep(0.005)
print("read to the end", flush=True)
"""


#: A tensor that is a copy has its elements elsewhere than where the receiver has put them.
ADDRESSES = """
import re
import numpy as np
from launcher.data import DataLoader
from launcher.data.tf import from_service

def slabs():
    lines = open("/proc/self/maps").read().splitlines()
    found = [re.match("([0-9a-f]+)-([0-9a-f]+)", line) for line in lines if "launcher-slab" in line]
    return [range(int(match[1], 16), int(match[2], 16)) for match in found]

for batch in from_service(DataLoader("pipeline:train_set", batch_size=1, tensors=False)):
    address = np.asarray(memoryview(batch)).ctypes.data  # numpy() would copy
    print("in place", any(address in slab for slab in slabs()), flush=True)
"""


def read(hosts: Hosts) -> list[int]:
    lines = hosts.output().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("got ")]


@pytest.mark.parametrize(
    ("module", "count"),
    [(WORKER, 1), (WORKER, 2), (DISPATCHER, 1)],
    ids=["a worker", "all workers", "the dispatcher"],
)
def test_each_batch_comes_once_and_in_order(make_hosts: MakeHosts, module: str, count: int) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": SCRIPT}
    hosts = make_hosts(files, data=2, prefetch_bytes=32 << 20)
    hosts.start()
    wait_until(lambda: len(read(hosts)) > 50, what=hosts.output())
    kill(*processes(hosts, module)[:count])
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert read(hosts) == list(range(STEPS))
    assert "read to the end" in hosts.output()
    assert hosts.processes() == []


def test_tensors_are_over_the_memory_in_which_batches_arrive(make_hosts: MakeHosts) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": ADDRESSES}
    hosts = make_hosts(files, data=1, prefetch_bytes=32 << 20)
    hosts.start()
    assert set(hosts.wait().values()) == {0}, hosts.output()
    lines = [line for line in hosts.output().splitlines() if line.startswith("in place ")]
    assert lines == ["in place True"] * STEPS
