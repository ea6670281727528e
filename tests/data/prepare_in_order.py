"""Prepares batches of the datasets of `entropy_datasets` in the order that it is given.

`python prepare_in_order.py 3102` prints one line of JSON: by dataset, its batches by their number.
"""

from __future__ import annotations

import json
import sys

from launcher.data.order import BatchPlan, StreamSpec, samples


def prepare(steps: list[int], names: list[str]) -> dict[str, dict[int, list[float]]]:
    datasets, prepared = samples.Datasets(), {}
    for name in names:
        spec = StreamSpec(name=name, dataset=f"entropy_datasets:{name}", batch_size=2)
        dataset = datasets.ready(spec, epoch=0)
        plan = BatchPlan(spec=spec, length=len(dataset), epoch=0, rank=0, world=1)
        prepared[name] = {step: samples.load_batch(dataset, plan, step).tolist() for step in steps}
    return prepared


if __name__ == "__main__":
    print(json.dumps(prepare([int(step) for step in sys.argv[1]], sys.argv[2:])))
