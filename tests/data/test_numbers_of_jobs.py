"""The numbers that a real job gives of its data: in its log, over HTTP, and in its verdict."""

from __future__ import annotations

import math
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from exposition import read_exposition
from hosts import Hosts
from made_hosts import MakeHosts
from programs import map_style
from waiting import wait_until

#: A loop whose steps take a known time, as batches of its dataset do; both only sleep, so that any
#: number of workers is at work at once, whatever the machine.
LOOP = """
import time
from launcher.data import DataLoader
computed = 0.0
for batch in DataLoader("pipeline:train_set", batch_size=1, epochs=1):
    started = time.perf_counter()
    time.sleep({compute})
    computed += time.perf_counter() - started
print(f"computed {{computed:.6f}}", flush=True)
"""


def job(make: MakeHosts, *, steps: int, work: float, compute: float, **options: Any) -> Hosts:
    files = {
        "pipeline.py": map_style(f"time.sleep({work}) or np.zeros(1000, np.float32)", steps),
        "train.py": LOOP.format(compute=compute),
    }
    hosts: Hosts = make(files, **options)
    return hosts


def verdict(hosts: Hosts) -> dict[str, Any]:
    hosts.run()
    (found,) = [each for host in hosts.hosts.values() for each in host.events("data_verdict")]
    return found


def metrics(hosts: Hosts, of: str) -> dict[str, Any]:
    """The leader's final figures of one kind."""
    leader = hosts[hosts.members["train_group"][0]]
    lines = [e for e in leader.events("data_metrics") if e["of"] == of and e["final"]]
    merged: dict[str, Any] = {}
    for line in lines:
        merged |= line["figures"]  # type: ignore[operator]  # an event's values are of any type
    return merged


@pytest.mark.long
def test_a_job_counts_what_its_hosts_did(make_hosts: MakeHosts) -> None:
    hosts = job(make_hosts, steps=60, work=0.04, compute=0.01, data=1, workers_per_host=2)
    found = verdict(hosts)

    (host,) = metrics(hosts, "hosts").values()
    (rank,) = metrics(hosts, "ranks").values()
    (receiver,) = metrics(hosts, "receivers").values()
    dispatcher = metrics(hosts, "dispatcher")
    assert rank["steps"] == dispatcher["leases"] == 60
    assert (host["most_workers"], host["cpus"]) == (2, 1)
    # the workers and the receiver report once a second, the rank at the end of its epoch
    assert 0.04 <= host["preparing"] / host["prepared"] < 0.08
    assert receiver["high"] <= receiver["budget"]
    assert rank["wait"] < rank["total"]
    assert found["text"].startswith(f"input-bound {found['wait_share']:.0%} of the time")

    (epoch,) = hosts["algo-2"].events("data_epoch")
    waits = epoch["waits"]
    assert isinstance(waits, dict)
    assert waits["p50"] <= waits["p95"] <= waits["max"] <= epoch["wait_seconds"]
    assert rank["startup"] == pytest.approx(waits["first"], abs=1e-3)


@pytest.mark.long
def test_a_job_without_a_data_group_has_a_verdict_too(make_hosts: MakeHosts) -> None:
    found = verdict(job(make_hosts, steps=60, work=0.03, compute=0.01, data=0))
    assert found["bound"] == "loading"
    assert 3 <= found["more"] <= 5  # sleeps last longer on a busy machine
    assert f"waiting for disks or a network: about {found['more']} workers" in found["text"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_advice_is_right_for_known_costs(make_hosts: MakeHosts, workers: int) -> None:
    """0.4 s of work for each 0.05 s of computing take 8 workers; fewer where sleeps last longer."""
    hosts = job(make_hosts, steps=48, work=0.4, compute=0.05, data=1, workers_per_host=workers)
    found = verdict(hosts)
    computed = float(hosts["algo-2"].output.partition("computed ")[2].split()[0])
    truth = 48 * 0.4 / computed
    assert found["bound"] == "workers"
    assert found["wait_share"] == pytest.approx(1 - workers / truth, abs=0.1)
    assert workers + found["more"] == pytest.approx(truth, rel=0.25)


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.long
def test_numbers_are_served_while_the_job_runs(make_hosts: MakeHosts) -> None:
    port = free_port("127.0.0.1")
    hosts = job(
        make_hosts,
        steps=100,
        work=0.02,
        compute=0.03,
        data=1,
        workers_per_host=2,
        metrics_port=port,
    )
    url = f"http://{hosts.addresses['algo-2']}:{port}"

    def scraped() -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return read_exposition(answer.read().decode())

    hosts.start()
    wait_until(lambda: hosts["algo-2"].events("metrics_served"))
    wait_until(lambda: scraped()["launcher_data_steps_total"].samples, what="a rank's report")
    first = scraped()
    (labels,) = first["launcher_data_steps_total"].samples
    assert dict(labels) == {"rank": "0", "stream": "pipeline:train_set"}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/", timeout=10)

    taken = first["launcher_data_steps_total"].samples[labels]
    wait_until(lambda: scraped()["launcher_data_steps_total"].samples[labels] > taken)
    second = scraped()
    for name, family in first.items():
        assert family.kind == second[name].kind
        if family.kind == "counter":
            for at, value in family.samples.items():
                assert second[name].samples[at] >= value, name
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert math.isclose(metrics(hosts, "ranks")["0/pipeline:train_set"]["steps"], 100)
