"""How long a rank waits when one of two workers is killed or stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import variables
from data_service_parts.job import Job
from table.figures import Figure, at_most

_BATCH = 8
_SETTINGS = {
    variables.BATCH: str(_BATCH),
    variables.SAMPLE_BYTES: "3072",
    variables.DATASET: "pipeline:sleeping",
    variables.SLEEP: "0.005",  # a batch in 40 ms; with two workers, one every 20
}


def measure(bench: Bench) -> Iterator[Figure]:
    for name, number, bound in (
        ("kill -9", signal.SIGKILL, 1.0),
        ("SIGSTOP", signal.SIGSTOP, 3.0),
    ):
        stalls = [_stall(bench, name, number, index) for index in range(bench.rounds)]
        what = f"{name} of one of two workers: longest wait beyond the usual"
        yield Figure(row="faults", what=what, values=stalls, unit="s", target=at_most(bound))


def _stall(bench: Bench, name: str, number: signal.Signals, index: int) -> float:
    job = Job(
        bench.folder / f"fault-{name.replace(' ', '')}-{index}",
        "read_samples.py",
        "pipeline:sleeping",
        workers_per_host=2,
    )
    calm = Order(seconds=bench.pick(2.0, 0.5), warm_seconds=0.5, verify=1)
    fault = Order(seconds=bench.pick(8.0, 1.0), warm_seconds=0.1, verify=1)
    try:
        bench.harness.start(job, _SETTINGS)
        job.await_workers(2)
        usual = bench.harness.measure(job, calm).longest_gap
        victim = job.workers()[0]
        with _later(bench.pick(1.0, 0.3), lambda: os.kill(victim, number)):
            longest = bench.harness.measure(job, fault).longest_gap
    finally:
        bench.harness.stop(job)
    return max(0.0, longest - usual)


@contextlib.contextmanager
def _later(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()
