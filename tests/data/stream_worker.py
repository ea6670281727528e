"""A process that prepares batches of streams, as a data worker does: one JSON line in, one out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from launcher.data.batches import structure
from launcher.data.order import (
    BatchContent,
    BatchPlan,
    Parts,
    ShardBatch,
    ShardReader,
    ShardReaderPlan,
    StreamSpec,
    samples,
)


def prepare(spec: StreamSpec, steps: list[int]) -> dict[int, dict[str, object]]:
    read = from_shard(spec) if spec.dataset.startswith("recipes:RecipeStream") else by_index(spec)
    return {step: vars(BatchContent.take(*read(step), samples=2)) for step in steps}


def by_index(spec: StreamSpec) -> Callable[[int], Parts]:
    dataset = samples.Datasets().ready(spec, epoch=0)
    plan = BatchPlan(spec=spec, length=len(dataset), epoch=0, rank=0, world=1)
    return lambda step: structure.disassemble(samples.load_batch(dataset, plan, step))


def from_shard(spec: StreamSpec) -> Callable[[int], Parts]:
    reader = ShardReader(ShardReaderPlan(spec=spec, epoch=0, shard=0))

    def read(step: int) -> Parts:
        found = reader.read(step)
        assert isinstance(found, ShardBatch)
        return found.parts

    return read


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(prepare(StreamSpec(**order["spec"]), order["steps"])), flush=True)
