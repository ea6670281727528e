"""Workers on train hosts: the same bytes over shared memory, and nothing lost when they die."""

from __future__ import annotations

import os
import signal

import pytest
from engine_processes import processes
from made_hosts import MakeHosts
from programs import PIPELINE, READER
from waiting import wait_until

FILES = {"pipeline.py": PIPELINE, "train.py": READER}


@pytest.mark.long
def test_batches_of_local_workers_are_the_same(make_hosts: MakeHosts) -> None:
    """Without a service, with local workers alone, and with both kinds."""
    seen = {}
    for data, local in ((0, 0), (0, 1), (1, 1)):
        hosts = make_hosts(FILES, data=data, train=2, local_workers=local)
        hosts.run()
        assert hosts.processes() == []
        seen[data, local] = hosts.hashes()
    assert len(seen[0, 0]) == 4
    assert seen[0, 0] == seen[0, 1] == seen[1, 1]


def test_a_local_worker_prepares_for_its_own_host_alone(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(FILES, train=2, local_workers=1)
    hosts.run()
    (served,) = hosts["algo-1"].events("batches_served")
    assert served["by_host"] == {"algo-1": 14, "algo-2": 14}
    assert served["received"] == {"0": 14, "1": 14}


#: A batch of 4 MiB, so that a kill meets workers that write one.
LARGE = PIPELINE.replace("(4, 4)", "(512, 256)").replace("rand(4, 4)", "rand(512, 256)")


@pytest.mark.long
def test_local_workers_that_are_killed_are_replaced(make_hosts: MakeHosts) -> None:
    script = READER.replace("range(2)", "range(6)")
    files = {"pipeline.py": LARGE.replace("4, 4", "512, 256"), "train.py": script}
    calm = make_hosts(files)
    calm.start()
    assert calm.wait() == {"algo-1": 0}
    hosts = make_hosts(files, local_workers=2, prefetch_bytes=32 << 20)
    hosts.start()
    train = hosts["algo-1"]
    killed: set[object] = set()
    for epoch in range(3):
        hosts.await_output(f"epoch={epoch}", "algo-1")
        joined = [event["pid"] for event in train.events("worker_joined")]
        victim = next(pid for pid in reversed(joined) if pid not in killed)
        os.kill(int(str(victim)), signal.SIGKILL)
        killed.add(victim)
    assert hosts.wait() == {"algo-1": 0}, hosts.output()
    assert hosts.hashes() == calm.hashes()
    assert len(train.events("service_restarted")) == 3
    assert len(train.events("worker_joined")) >= 4


def test_local_workers_step_back_before_the_trainer(make_hosts: MakeHosts) -> None:
    script = "import sys\nprint('training', flush=True)\nimport time\ntime.sleep(1000)\n"
    hosts = make_hosts({**FILES, "train.py": script}, local_workers=1)
    hosts.start()
    wait_until(lambda: hosts["algo-1"].events("worker_joined"))
    (joined,) = hosts["algo-1"].events("worker_joined")
    niceness = os.getpriority(os.PRIO_PROCESS, int(str(joined["pid"])))
    assert niceness == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)


def test_a_script_that_is_asked_to_stop_may_read_on_from_local_workers(
    make_hosts: MakeHosts,
) -> None:
    script = """
import signal, sys
from launcher.data import DataLoader
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
print("training", flush=True)
after = 0
for epoch in range(10**6):
    for batch in DataLoader("pipeline:train_set", batch_size=8, name=str(epoch)):
        after += bool(stopping)
        if after == 30:
            print("saved", flush=True)
            sys.exit(0)
"""
    hosts = make_hosts({**FILES, "train.py": script}, local_workers=1)
    hosts.start()
    hosts.await_output("training", "algo-1")
    for pid in hosts.processes():
        os.kill(pid, signal.SIGTERM)
    assert hosts.wait() == {"algo-1": 143}
    assert "saved" in hosts["algo-1"].output, hosts.output()
    assert hosts.processes() == []


@pytest.mark.parametrize("local", [0, 1], ids=["in-process", "local"])
def test_nothing_of_the_service_runs_without_workers(make_hosts: MakeHosts, local: int) -> None:
    script = "print('training', flush=True)\nimport time\ntime.sleep(1000)\n"
    hosts = make_hosts({**FILES, "train.py": script}, local_workers=local)
    hosts.start()
    hosts.await_output("training", "algo-1")
    names = ("dispatcher", "receiver", "worker")
    found = [processes(hosts, f"launcher.data.{name}") for name in names]
    assert [len(each) for each in found] == [local] * 3
