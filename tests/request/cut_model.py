"""A model of three modules, cut for two ranks: the file that a job takes, with made-up costs."""

from __future__ import annotations

import dataclasses
from typing import Any

from launcher.shared import (
    Fingerprint,
    Joint,
    Link,
    ModuleCost,
    PartitionChoice,
    PartitionFile,
    predict_stages,
)


def consistent(partition: PartitionFile) -> PartitionFile:
    """The same with the predictions that follow from its modules and starts."""
    stages = predict_stages(partition.costs, partition.orders, partition.places)
    predicted = dataclasses.replace(partition, stages=stages)
    return dataclasses.replace(predicted, step=predicted.timeline.seconds)


_COSTS = PartitionFile(
    task="task:make",
    fingerprint=Fingerprint(
        parameters={"0.weight": "[3, 2] float32", "2.weight": "[1, 3] float32"},
        calls=("0", "1", "2"),
        example=("[4, 2] float32",),
        torch="2.13.0",
    ),
    objective="speed",
    partitions=2,
    microbatches=2,
    schedule="interleaved",
    profile="measured",
    device="cpu",
    runs=5,
    link=Link(latency=1e-4, bandwidth=1e9, source="measured"),
    modules=(
        ModuleCost(name="0", forward=0.001, backward=0.002, parameters=24, kept=48),
        ModuleCost(name="1", forward=0.0, backward=0.0, crossing=48, returning=48),
        ModuleCost(name="2", forward=0.001, backward=0.002, parameters=12, crossing=48),
    ),
    joints=(Joint(first=0, second=1, kept=-48),),
    starts=("2",),
    stages=(),
    step=0.0,
    spread=0.0002,
    choices=(
        PartitionChoice(objective="memory", partitions=2, microbatches=2, step=0.0093, memory=120),
        PartitionChoice(objective="speed", partitions=4, microbatches=2, step=None, memory=None),
    ),
)

PARTITION = consistent(_COSTS)


def partition(**changes: Any) -> PartitionFile:
    """Another one."""
    return dataclasses.replace(PARTITION, **changes)
