"""Processes that a dataset starts: they end when they are told to, wherever it is read."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from made_hosts import MakeHosts

from launcher.data import DataLoader

PIPELINE = """
import multiprocessing, os, signal, subprocess, time

FORK = multiprocessing.get_context("fork")

def square(number):
    return number * number

def pooled(index):
    with FORK.Pool(2) as pool:  # which ends its processes with SIGTERM
        return pool.map(square, [index, index + 1])[1] - 2 * index - 1 - index * index

def ended(index):
    process = FORK.Process(target=time.sleep, args=(600,))
    process.start()
    process.terminate()
    process.join()
    return process.exitcode

def interrupted(index):
    process = subprocess.Popen(["sleep", "600"])
    process.send_signal(signal.SIGINT)
    return process.wait()

def commanded(index):
    process = subprocess.Popen(["sleep", "600"])
    process.terminate()
    return process.wait()

def prepared(index):
    process = subprocess.Popen(["sleep", "600"], preexec_fn=os.getpid)
    process.terminate()
    return process.wait()

def wait_ready(ready):
    ready.set()
    while True:
        time.sleep(0.01)  # a long sleep misses a signal that came just before it

def own(index):
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
    ready = FORK.Event()
    process = FORK.Process(target=wait_ready, args=(ready,))
    process.start()
    signal.signal(signal.SIGTERM, before)
    ready.wait()
    process.terminate()
    process.join()
    return process.exitcode

class Ends:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        kinds = (pooled, ended, interrupted, commanded, prepared, own)
        return [kind(index) for kind in kinds]

def ends():
    return Ends()
"""
SCRIPT = """
from launcher.data import DataLoader

for batch in DataLoader("pipeline:ends", batch_size=2, collate_fn=None):
    print("ends", [part.tolist() for part in batch], flush=True)
"""
#: A handler of the dataset's own is inherited, as from any process.
EXPECTED = [0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM, -signal.SIGTERM, 3]


@pytest.mark.parametrize("where", [{"data": 1}, {"local_workers": 1}, {}], ids=str)
def test_processes_of_a_sample_end_when_they_are_told_to(
    make_hosts: MakeHosts, where: dict[str, int]
) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": SCRIPT}
    hosts = make_hosts(files, datasets=("pipeline:ends",), **where)
    hosts.run()
    batch = [[int(code)] * 2 for code in EXPECTED]
    assert hosts.output().count(f"ends {batch}") == 2, hosts.output()


def test_processes_of_forked_workers_end_when_they_are_told_to(
    write_module: Callable[[str], str],
) -> None:
    loader = DataLoader(f"{write_module(PIPELINE)}:ends", batch_size=2, workers=2, tensors=False)
    assert [[part.tolist() for part in batch] for batch in loader] == [
        [[int(code)] * 2 for code in EXPECTED]
    ] * 2


FORKING = """
import os, sys, time
from launcher.data import DataLoader

for batch in DataLoader(list(range(64)), batch_size=1):
    time.sleep(0.02)  # a step, of which a verdict needs some
if (child := os.fork()) == 0:
    sys.exit(0)  # which runs the handlers at exit of this process
os.waitpid(child, 0)
"""


def test_a_fork_of_the_script_reports_nothing_of_its_loaders(make_hosts: MakeHosts) -> None:
    hosts = make_hosts({"train.py": FORKING, "pipeline.py": PIPELINE})
    hosts.run()
    assert len(hosts["algo-1"].events("data_verdict")) == 1
