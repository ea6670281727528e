"""The time from the moment that the slower of the two groups is up to the first batch."""

from __future__ import annotations

import time
from collections.abc import Iterator

from data_service_parts.bench import Bench
from data_service_parts.inside import variables
from data_service_parts.job import Job
from data_service_parts.processes import running_module
from table.figures import Figure, at_most

_GROUPS = ("data_group", "train_group")
_WORKER = "launcher.data.worker"
_SETTINGS = {
    variables.BATCH: "8",
    variables.SAMPLE_BYTES: "3072",
    variables.DATASET: "pipeline:sleeping",
    variables.SLEEP: "0",
}


def measure(bench: Bench) -> Iterator[Figure]:
    delays = {late: [_delay(bench, late, i) for i in range(bench.rounds)] for late in _GROUPS}
    for late, values in delays.items():
        what = f"first batch, when the {late} comes last"
        yield Figure(row="start", what=what, values=values, unit="s", target=at_most(1.5))


def _delay(bench: Bench, late: str, index: int) -> float:
    """Seconds to the first batch since the late side was up.

    A data host is up when its first process starts, a train host when its script begins.
    """
    job = Job(bench.folder / f"start-{late}-{index}", "first_batch.py", "pipeline:sleeping")
    try:
        job.lay_out(bench.harness.variables(job, _SETTINGS))
        if late == "data_group":
            job.start_group("train_group")
            bench.harness.await_consumer(job)
            began = time.time()
            job.start_group("data_group")
            return float(bench.harness.request(job)["first"] - began)
        job.start_group("data_group")
        job.wait_until(lambda: running_module(job.data.pids(), _WORKER), "a worker")
        job.start_group("train_group")
        bench.harness.await_consumer(job)
        word = bench.harness.request(job)
        return float(word["first"] - word["began"])
    finally:
        bench.harness.stop(job)
