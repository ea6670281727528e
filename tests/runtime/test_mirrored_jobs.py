"""MultiWorkerMirroredStrategy by real TensorFlow: hosts are processes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts

from launcher.shared import Launch

pytestmark = [pytest.mark.library("tensorflow"), pytest.mark.slow]
MakeHosts = Callable[..., Hosts]

#: Workers add up until they are told to end; a worker whose peer dies gets an error of its own.
STEPS = """
import os, signal, time
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
{handler}

@tf.function
def step(value):
    return strategy.reduce("SUM", strategy.run(lambda: tf.constant(value)), axis=None)

rank = int(os.environ["RANK"])
print("sum", int(step(rank + 1)), "of", strategy.num_replicas_in_sync, os.getpid(), flush=True)
while True:
    step(1)
    print("steps", flush=True)
    time.sleep(0.05)
"""
#: The strategy catches SIGTERM when it is made, so that a handler comes after it.
HANDLER = """
def leave(*_):
    print("asked to stop", flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, leave)
"""
FIT = """
import numpy as np
import keras
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
model.fit(np.ones((8, 4)), np.ones((8, 1)), batch_size=4)
"""

PIPELINE = "def train_set():\n    return range(100)\n"
#: Two epochs in a pass each, and two more in one.
SHARES = """
import tensorflow as tf
import launcher.data.tf
from launcher.data import DataLoader

strategy = tf.distribute.MultiWorkerMirroredStrategy()
dataset = launcher.data.tf.from_service(DataLoader("pipeline:train_set", 5, shuffle=True))
for number, read in enumerate([dataset, dataset, dataset.repeat(2)]):
    for batch in strategy.distribute_datasets_from_function(lambda context: read):
        (samples,) = strategy.experimental_local_results(batch)
        print("got", number, *samples.numpy(), flush=True)
"""


def start(make_hosts: MakeHosts, script: str, handler: str = "", data: int = 0) -> Hosts:
    files = {"train.py": script.replace("{handler}", handler), "pipeline.py": PIPELINE}
    options = {"train": 2, "launch": Launch.MULTI_WORKER_MIRRORED, "start_timeout": 500.0}
    hosts = make_hosts(files, data=data, **options)
    hosts.start()
    return hosts


def rank_of(hosts: Hosts, name: str) -> int:
    (pid,) = [pid for pid in hosts.processes(name) if b"train.py" in command_line(pid)]
    return pid


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def at_work(hosts: Hosts) -> Hosts:
    hosts.await_output("steps", *hosts.hosts)
    assert all("sum 3 of 2" in host.output for host in hosts.hosts.values())
    return hosts


@pytest.mark.library("smoke")
def test_a_killed_worker_is_the_reason_and_not_its_peers_error(make_hosts: MakeHosts) -> None:
    hosts = at_work(start(make_hosts, STEPS))
    os.kill(rank_of(hosts, "algo-2"), signal.SIGKILL)
    assert set(hosts.wait().values()) == {1}, hosts.output()
    reason = hosts["algo-2"].failure or ""
    assert reason.startswith("host algo-2 (train_group), rank 1: killed by SIGKILL")
    assert hosts["algo-1"].failure is None
    assert hosts.processes() == []


def test_a_strategy_gives_each_worker_its_own_batches_of_the_loader(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, SHARES, data=1)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    passes: list[Counter[int]] = [Counter(), Counter(), Counter()]
    for name in hosts.members["train_group"]:
        lines = [line.split()[1:] for line in hosts[name].output.splitlines() if "got " in line]
        assert len(lines) == 4 * 10
        for number, *samples in lines:
            passes[int(number)].update(map(int, samples))
    once = Counter(range(100))
    assert passes == [once, once, once + once]


def test_a_fit_of_keras_3_fails_with_the_ways_out(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, FIT)
    assert set(hosts.wait().values()) == {1}, hosts.output()
    (reason,) = filter(None, (host.failure for host in hosts.hosts.values()))
    assert "PerReplica" in reason
    assert "(Keras 3's fit fails under this strategy: write the training loop" in reason
    assert "or train Keras 3 on JAX (distribution: jax))" in reason


@pytest.mark.parametrize("handler", [HANDLER, ""], ids=["a handler", "no handler"])
def test_a_stop_leaves_nothing(make_hosts: MakeHosts, handler: str) -> None:
    """A script without a handler of its own goes on until it is killed."""
    hosts = at_work(start(make_hosts, STEPS, handler))
    hosts.terminate()
    assert set(hosts.wait().values()) == {143}, hosts.output()
    assert ("asked to stop" in hosts.output()) is bool(handler)
    assert all(host.failure is None for host in hosts.hosts.values())
    assert hosts.processes() == []
