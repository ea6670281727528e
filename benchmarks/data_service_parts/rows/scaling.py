"""From 1 to 64 workers, each a real process.

Their work is to sleep, which leaves two processors to the service itself; and then there is none,
and all send to one receiver as fast as they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from data_service_parts.bench import Bench
from data_service_parts.harness import Order, Window
from data_service_parts.inside import payload, variables
from data_service_parts.job import Job
from data_service_parts.rows.transfer import SIZES
from table.figures import Figure, at_least, ratios
from table.turns import in_turns

_SAMPLE_SECONDS = 0.01
_BATCH = 32
_SAMPLE_BYTES = 3072
_WORKERS = (1, 4, 16, 64)
_SENDERS = (1, 16, 64)
_SENT = "4 MB"


def measure(bench: Bench) -> Iterator[Figure]:
    settings = {
        variables.BATCH: str(_BATCH),
        variables.SAMPLE_BYTES: str(_SAMPLE_BYTES),
        variables.DATASET: "pipeline:sleeping",
        variables.SLEEP: str(_SAMPLE_SECONDS),
    }
    linear: list[float] = []
    for count in _WORKERS[: 2 if bench.is_quick else None]:
        rates = [rate * _BATCH for rate in _rates(bench, count, settings)]
        linear = linear or rates
        yield Figure(row="scaling", what=f"{count} workers", values=rates, unit="samples/s")
        if count > 1:
            shares = [rate / (count * one) for rate, one in zip(rates, linear, strict=True)]
            what = f"{count} workers: to {count} times one worker"
            yield Figure(row="scaling", what=what, values=shares, target=at_least(0.95))
    yield from _at_full_speed(bench)


def _at_full_speed(bench: Bench) -> Iterator[Figure]:
    """What comes of the rate, and of the processor time, when ever more workers send."""
    sent = _sent(bench, _SENDERS[: 2 if bench.is_quick else None])
    rates = {count: [w.bytes_per_second for w in windows] for count, windows in sent.items()}
    used = {count: [w.trainer_cpu_per_gb for w in windows] for count, windows in sent.items()}
    for count in sent:
        what = f"ready batches of {_SENT}, {count} workers"
        figures = [rate / 1e9 for rate in rates[count]]
        yield Figure(row="scaling", what=what, values=figures, unit="GB/s")
        if count > 1:
            shares = ratios(rates[count], rates[1])
            yield Figure(row="scaling", what=f"{what}: to one", values=shares, target=at_least(0.9))
            shares = ratios(used[count], used[1])
            yield Figure(row="scaling", what=f"{what}: CPU to one", values=shares)


def _sent(bench: Bench, counts: tuple[int, ...]) -> dict[int, list[Window]]:
    files = payload.write(bench.folder / "scaling-sent", SIZES[_SENT])
    order = Order(seconds=bench.pick(1.5, 0.2), warm_seconds=bench.pick(0.3, 0.0))
    jobs = {
        count: Job(
            bench.folder / f"scaling-sent-{count}",
            "read_ready.py",
            "pipeline:ready",
            name=f"{count} workers",
            workers_per_host=count,
        )
        for count in counts
    }
    with ExitStack() as stack:
        for count, job in jobs.items():
            stack.callback(bench.harness.stop, job)
            bench.harness.start(job, {variables.PAYLOAD: str(files)})
            job.await_workers(count)
        windows = in_turns(
            bench.rounds,
            {
                str(count): lambda job=job: bench.harness.measure(job, order)
                for count, job in jobs.items()
            },
        )
    return {count: windows[str(count)] for count in counts}


def _rates(bench: Bench, count: int, settings: dict[str, str]) -> list[float]:
    """Batches a second, round by round."""
    folder = bench.folder / f"scaling-{count}"
    job = Job(folder, "read_samples.py", "pipeline:sleeping", workers_per_host=count)
    # Workers are in step, and batches come in clumps: only whole turns of them are a fair sample.
    order = Order(
        seconds=0.0,
        least=int(bench.pick(8, 2)) * count,
        warm_seconds=0.0,
        warm_batches=int(bench.pick(3, 1)) * count,
        verify=0,
    )
    try:
        bench.harness.start(job, settings)
        job.await_workers(count)
        windows = [bench.harness.measure(job, order) for _ in range(bench.rounds)]
    finally:
        bench.harness.stop(job)
    return [window.batches_per_second for window in windows]
