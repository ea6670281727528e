"""A model that is cut in two, over two GPUs: step and peak memory, predicted and measured."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_parts import gpus
from gpu_parts.rows.stages import SHAPE, SMALL, off
from table.figures import Figure
from trainers_parts.bench import Bench


def measure(bench: Bench) -> Iterator[Figure]:
    absent = gpus.missing("pipeline", "step and peak memory, prediction off by", 2)
    if absent is not None:
        yield absent
        return
    found = bench.run(
        "pipeline_pair",
        ranks=2,
        shape=bench.pick(SHAPE, SMALL),
        microbatches=8,
        rounds=bench.pick(20, 3),
    )
    note = gpus.note(2)
    predicted, measured = (1e3 * found[name] for name in ("predicted_seconds", "seconds"))
    yield off("pipeline", "a step", predicted, measured, "ms", note)
    pairs = zip(found["predicted_bytes"], found["bytes"], strict=True)
    for number, (told, real) in enumerate(pairs):
        yield off("pipeline", f"stage {number}: peak memory", told / 1e9, real / 1e9, "GB", note)
