"""What arriving data does to the training loop, and a training loop to arriving data."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import payload, variables
from data_service_parts.job import Job
from data_service_parts.rows.transfer import SIZES
from table.figures import Figure, at_least, at_most, ratios
from table.turns import in_turns

_RATE = 1e9  # bytes/s
#: Bytes a second at which the sender leaves a core to the loop: an instance's 16 Gbit/s.
_PACE = 2e9
#: Who gets the two cores of a small machine differs from round to round.
_MORE_ROUNDS = 3
#: How it is while batches arrive.
_IDLE = "the loop does nothing"
_SPINNING = "the pure-Python loop never yields"
_BESIDE = "another process never yields"


def measure(bench: Bench) -> Iterator[Figure]:
    folder = bench.folder / "main-loop"
    size = SIZES["4 MB" if bench.is_quick else "38 MB"]
    settings = {variables.PAYLOAD: str(payload.write(folder / "payload", size))}
    yield from _slow_down(bench, Job(folder, "small_ops.py", "pipeline:ready"), settings, size)
    script = Job(folder, "read_ready.py", "pipeline:ready")
    yield from _spinning(bench, script, settings, "")
    paced = {**settings, variables.SLEEP: str(size / _PACE)}
    yield from _spinning(bench, script, paced, f", {_PACE / 1e9:.0f} GB/s offered")


def _slow_down(bench: Bench, job: Job, settings: dict[str, str], size: int) -> Iterator[Figure]:
    def run(every: float) -> dict[str, Any]:
        return bench.harness.request(job, seconds=bench.pick(1.5, 0.2), every=every)

    try:
        bench.harness.start(job, settings)
        turns = {"alone": lambda: run(0.0), "fed": lambda: run(size / _RATE)}
        words = in_turns(_rounds(bench), turns)
    finally:
        bench.harness.stop(job)
    rates = [word["batches"] * size / 1e9 for word in words["fed"]]
    yield Figure(
        row="main loop", what="rate that reached a launch-bound loop", values=rates, unit="GB/s"
    )
    shares = ratios(*([word["steps"] for word in words[name]] for name in ("fed", "alone")))
    yield Figure(
        row="main loop",
        what="slow-down of a loop of 150 tiny torch operations",
        values=[100 * (1 - share) for share in shares],
        unit="%",
        target=at_most(8),
    )


def _spinning(bench: Bench, job: Job, settings: dict[str, str], when: str) -> Iterator[Figure]:
    """Each step spins for as long as a batch takes to arrive when nothing else is done.

    On two cores, a sender as fast as it can be, receiver and loop do not find room for all that
    they want to do; what is left where another process spins instead is what the interpreter's lock
    has no part in.
    """
    order = Order(seconds=bench.pick(1.5, 0.2))
    try:
        bench.harness.start(job, settings)
        rates: dict[str, list[float]] = {name: [] for name in (_IDLE, _SPINNING, _BESIDE)}
        for _ in range(_rounds(bench)):
            idle = bench.harness.measure(job, order)
            spin = replace(order, spin=idle.seconds / idle.batches)
            rates[_IDLE].append(idle.bytes_per_second)
            rates[_SPINNING].append(bench.harness.measure(job, spin).bytes_per_second)
            with _busy_process():
                beside = bench.harness.measure(job, order)
            rates[_BESIDE].append(beside.bytes_per_second)
    finally:
        bench.harness.stop(job)
    for name, values in rates.items():
        each = [value / 1e9 for value in values]
        yield Figure(row="main loop", what=f"rate while {name}{when}", values=each, unit="GB/s")
    what = f"rate under a pure-Python loop that never yields, to idle{when}"
    shares = ratios(rates[_SPINNING], rates[_IDLE])
    yield Figure(row="main loop", what=what, values=shares, target=at_least(0.8))
    what = f"that, to the rate while another process never yields{when}"
    shares = ratios(rates[_SPINNING], rates[_BESIDE])
    yield Figure(row="main loop", what=what, values=shares)


def _rounds(bench: Bench) -> int:
    return bench.rounds * (1 if bench.is_quick else _MORE_ROUNDS)


@contextlib.contextmanager
def _busy_process() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
