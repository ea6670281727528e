"""A job with a data service that is ended at any of its stages leaves nothing behind."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE

from launcher.runtime import RECEIVER_VARIABLE

SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.005)\n        noise = ")
TRAIN = """
import os, sys, time
from launcher.data import DataLoader

loader = DataLoader("pipeline:train_set", batch_size=4)
for epoch in range(2):
    for step, batch in enumerate(loader):
        print(f"epoch {epoch}, step {step}", flush=True)
    print(f"after epoch {epoch}", flush=True)
    while epoch == 0 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
"""
#: What the hosts' output says at a stage.
STAGES = {
    "starting": "host_started",
    "workers join": "worker_joined",
    "in an epoch": "epoch 0, step 3",
    "between epochs": "after epoch 0",
    "ending": "after epoch 1",
}


def send_all(hosts: Hosts, number: signal.Signals) -> None:
    for host in hosts.hosts.values():
        if host.process is not None:
            host.process.send_signal(number)


def lose(hosts: Hosts, name: str) -> None:
    """A machine is lost with all that runs on it, also what is just being started."""
    while hosts.processes(name):
        hosts.kill(name)


ENDINGS: dict[str, Callable[[Hosts], None]] = {
    "Ctrl-C": lambda hosts: send_all(hosts, signal.SIGINT),
    "SIGTERM": lambda hosts: send_all(hosts, signal.SIGTERM),
    "the leader is lost": lambda hosts: lose(hosts, "algo-2"),
    "the other train host is lost": lambda hosts: lose(hosts, "algo-3"),
    "the data host is lost": lambda hosts: lose(hosts, "algo-1"),
}
BY_DEFAULT = {("in an epoch", "SIGTERM"), ("workers join", "the leader is lost")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "ending"),
    [
        pytest.param(
            stage,
            ending,
            id=f"{stage}, {ending}",
            marks=[] if (stage, ending) in BY_DEFAULT else [pytest.mark.slow],
        )
        for stage in STAGES
        for ending in ENDINGS
    ],
)
def test_nothing_is_left(
    make_hosts: Callable[..., Hosts], tmp_path: Path, stage: str, ending: str
) -> None:
    hosts = make_hosts(
        {"pipeline.py": SLOW, "train.py": TRAIN},
        data=1,
        train=2,
        workers_per_host=2,
        start_timeout=10.0,  # those that had no word from the leader yet wait so long for it
        environment={"GO": str(tmp_path / "go")},
    )
    if stage == "ending":
        (tmp_path / "go").touch()
    hosts.start()
    hosts.await_output(STAGES[stage])
    names = receivers(hosts)
    assert names or stage in ("starting", "ending"), "there is something that could be left"
    ENDINGS[ending](hosts)
    (tmp_path / "go").touch()
    hosts.wait()
    assert hosts.processes() == [], hosts.output()
    assert names & abstract_sockets() == set()


def receivers(hosts: Hosts) -> set[str]:
    """The names of the abstract sockets on which this job's receivers listen now."""
    found = set()
    for pid in hosts.processes():
        try:
            words = Path(f"/proc/{pid}/environ").read_text(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        found |= set(re.findall(rf"{RECEIVER_VARIABLE}=([^\0]+)", words))
    return found & abstract_sockets()


def abstract_sockets() -> set[str]:
    return set(re.findall(r" @(\S+)$", Path("/proc/net/unix").read_text(), re.MULTILINE))
