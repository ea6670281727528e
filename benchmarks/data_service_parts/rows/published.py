"""The two published examples of heterogeneous clusters, with sleeping workers for their vCPUs.

AWS's PyTorch example: 8 vCPUs take 1.19 s a step; 36 more make it 44. Its TensorFlow example: 96
vCPUs take 192 ms a step, of which the accelerators compute for 86 (45 % busy); 144 more make it
240. A vCPU is a worker process that sleeps, all else is real; times are cut to `_SCALE` of the
originals, so that the processors of this machine see more steps a second, not fewer. (A quarter was
too little: of 21.5 ms, a sleep's lateness and a look at the batch alone are 5 %.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import variables
from data_service_parts.job import Job
from table.figures import Figure, at_most

_SCALE = 0.5
_SAMPLES = 16
_SAMPLE_BYTES = 3 * 224 * 224


@dataclass(frozen=True)
class _Example:
    """work: vCPU seconds a step; compute: seconds of the accelerators."""

    name: str
    vcpus: tuple[int, ...]
    work: float
    compute: float

    def step_seconds(self, vcpus: int) -> float:
        return _SCALE * max(self.compute, self.work / vcpus)


_EXAMPLES = (
    _Example("PyTorch example", (8, 44), work=8 * 1.19, compute=0.18),
    _Example("TensorFlow example", (96, 240), work=96 * 0.192, compute=0.086),
)


def measure(bench: Bench) -> Iterator[Figure]:
    for example in _EXAMPLES[: 1 if bench.is_quick else None]:
        for vcpus in example.vcpus[: 1 if bench.is_quick else None]:
            expected = example.step_seconds(vcpus)
            steps = _measure_steps(bench, example, vcpus)
            values = [seconds / expected for seconds in steps]
            what = f"{example.name}, {vcpus} vCPUs: step to {1000 * expected:.1f} ms"
            yield Figure(row="published", what=what, values=values, target=at_most(1.05))


def _measure_steps(bench: Bench, example: _Example, vcpus: int) -> list[float]:
    """Seconds a step, round by round."""
    batch_seconds = _SCALE * example.work
    job = Job(
        bench.folder / f"published-{vcpus}",
        "read_samples.py",
        "pipeline:sleeping",
        workers_per_host=vcpus,
        prefetch_bytes=4 << 30,
    )
    settings = {
        variables.BATCH: str(_SAMPLES),
        variables.SAMPLE_BYTES: str(_SAMPLE_BYTES),
        variables.DATASET: "pipeline:sleeping",
        variables.SLEEP: str(bench.pick(batch_seconds, 0.05) / _SAMPLES),
    }
    # Workers are in step, and batches come in clumps: only whole turns of them are a fair sample.
    turns = int(bench.pick(2, 1)) * vcpus
    order = Order(
        seconds=0.0,
        least=turns,
        warm_seconds=0.0,
        warm_batches=turns,
        sleep=_SCALE * example.compute,
        verify=0,
    )
    try:
        bench.harness.start(job, settings)
        job.await_workers(vcpus, patience=300)
        windows = [bench.harness.measure(job, order)]
        order = replace(order, warm_batches=0)
        windows += [bench.harness.measure(job, order) for _ in range(bench.rounds - 1)]
    finally:
        bench.harness.stop(job)
    return [window.seconds / window.batches for window in windows]
