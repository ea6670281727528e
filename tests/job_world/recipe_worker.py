"""A process that prepares batches of recipes, as a data worker does: one JSON line in, one out."""

from __future__ import annotations

import json
import sys

from launcher.data.batches import structure
from launcher.data.order import samples
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.stream_spec import StreamSpec
from launcher.data.order.verification import BatchContent


def prepare(spec: StreamSpec, steps: list[int]) -> dict[int, dict[str, object]]:
    dataset = samples.Datasets().ready(spec, epoch=0)
    plan = BatchPlan(spec=spec, length=len(dataset), epoch=0, rank=0, world=1)
    content = {}
    for step in steps:
        tree, arrays = structure.disassemble(samples.load_batch(dataset, plan, step))
        content[step] = vars(BatchContent.take(tree, arrays, samples=2))
    return content


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(prepare(StreamSpec(**order["spec"]), order["steps"])), flush=True)
