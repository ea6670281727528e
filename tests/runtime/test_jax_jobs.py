"""jax.distributed by real JAX, with data hosts: hosts are processes, and they end for real."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_processes import WORKER, kill, processes
from hosts import Hosts

from launcher.shared import Launch

pytestmark = [pytest.mark.library("jax"), pytest.mark.slow]
MakeHosts = Callable[..., Hosts]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tensorflow.md"
DIGITS = """
import numpy as np

class Digits:
    def __len__(self):
        return 320
    def __getitem__(self, index):
        return np.eye(10, 64, dtype=np.float32)[index % 10], index % 10

def train_set():
    return Digits()
"""
SHOW = """
loss = jax.jit(loss_of)(layers, images, labels)
print("devices", jax.device_count(), "loss", float(loss), flush=True)
print("parts", *(layer.addressable_shards[0].data.shape for layer in layers), flush=True)
"""
PIPELINE = """
import time
import numpy as np

class Samples:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.02)
        return np.full(4, index, np.float32)

def train_set():
    return Samples()
"""
#: Each step adds up what all ranks have read.
STEPS = """
import os, signal, sys
import jax, numpy as np
from jax.experimental import multihost_utils
from launcher.data import DataLoader

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
)
{handler}
seen = []
for batch in DataLoader("pipeline:train_set", 1, shuffle=True, seed=3, tensors=False):
    everyones = multihost_utils.process_allgather(batch[:, 0].astype(np.int32)).ravel().tolist()
    seen += everyones
    print("steps", *everyones, flush=True)
assert sorted(seen) == list(range(1000)), seen
print("read to the end", flush=True)
"""
#: JAX catches SIGTERM itself, so a script that wants to know of it has a handler of its own.
HANDLER = """
def leave(*_):
    print("asked to stop", flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, leave)
"""


def at_work(make_hosts: MakeHosts, handler: str = "") -> Hosts:
    files = {"pipeline.py": PIPELINE, "train.py": STEPS.replace("{handler}", handler)}
    options = {"data": 2, "train": 2, "launch": Launch.JAX, "start_timeout": 500.0}
    hosts = make_hosts(files, **options)
    hosts.start()
    hosts.await_output("steps", *hosts.members["train_group"])
    return hosts


def test_the_guides_model_is_sharded_over_the_devices_of_all_hosts(make_hosts: MakeHosts) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    (initialize,) = [text for text in snippets if "jax.distributed.initialize(" in text]
    (shard,) = [text for text in snippets if "PartitionSpec" in text]
    files = {"pipeline.py": DIGITS, "train.py": initialize + shard + SHOW}
    two_each = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    options = {"data": 1, "train": 2, "launch": Launch.JAX, "start_timeout": 500.0}
    hosts = make_hosts(files, **options, environment=two_each)
    hosts.run()
    for name in hosts.members["train_group"]:
        (loss,) = re.findall(r"^devices 4 loss (\S+)$", hosts[name].output, re.M)
        assert float(loss) < 2.3  # that of guesses, ln(10)
        assert "parts (16, 1024) (256, 10)" in hosts[name].output


@pytest.mark.library("smoke")
def test_a_killed_rank_is_the_reason_and_not_its_peers_error(make_hosts: MakeHosts) -> None:
    hosts = at_work(make_hosts)
    (rank,) = processes(hosts, "launcher.runtime.launch.rank", "algo-4")
    os.kill(rank, signal.SIGKILL)
    codes = hosts.wait()
    assert codes["algo-3"] == codes["algo-4"] == 1, hosts.output()
    reason = hosts["algo-4"].failure or ""
    assert reason.startswith("host algo-4 (train_group), rank 1: killed by SIGKILL")
    assert hosts["algo-3"].failure is None
    assert hosts.processes() == []


def test_killed_workers_change_nothing(make_hosts: MakeHosts) -> None:
    hosts = at_work(make_hosts)
    kill(*processes(hosts, WORKER))
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert all("read to the end" in hosts[name].output for name in hosts.members["train_group"])
    assert hosts.processes() == []


def test_the_loss_of_a_data_host_fails_the_job(make_hosts: MakeHosts) -> None:
    hosts = at_work(make_hosts)
    hosts.kill("algo-1")
    codes = hosts.wait()
    assert codes["algo-3"] == codes["algo-4"] == 1, hosts.output()
    assert 'origin="host algo-1 (data_group): the host died"' in hosts.output()
    assert "read to the end" not in hosts.output()
    assert hosts.processes() == []


@pytest.mark.parametrize("handler", [HANDLER, ""], ids=["a handler", "no handler"])
def test_a_stop_leaves_nothing(make_hosts: MakeHosts, handler: str) -> None:
    """A script without a handler of its own goes on, for as long as the platform lets it."""
    hosts = at_work(make_hosts, handler)
    hosts.terminate()
    codes = hosts.wait()
    assert codes["algo-3"] == codes["algo-4"] == 143, hosts.output()
    assert ("asked to stop" in hosts.output()) is bool(handler)
    assert ("read to the end" in hosts.output()) is not bool(handler)
    assert all(host.failure is None for host in hosts.hosts.values())
    assert hosts.processes() == []
