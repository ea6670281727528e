"""A partition with numbers that nobody has measured, for what only reads them."""

from __future__ import annotations

from typing import Any

from launcher import Partition
from launcher.shared.partitions.partition_file import Fingerprint, PartitionChoice, StagePrediction
from launcher.shared.partitions.stage_costs import Link, ModuleCost

MIB = 2**20


def made_up(**changes: Any) -> Partition:
    """Of two modules in each stage, which take 10 ms forward, 20 ms back and 1 ms to send."""
    stages = changes.get("partitions", 2) * changes.get("virtual_stages", 1)
    names = [f"blocks.{number}" for number in range(2 * stages)]
    given = {
        "task": "task:make",
        "fingerprint": Fingerprint(parameters={}, calls=tuple(names), example=(), torch="2.13.0"),
        "objective": "speed",
        "partitions": 2,
        "microbatches": 4,
        "schedule": "interleaved",
        "profile": "measured",
        "device": "a CPU",
        "runs": 10,
        "link": Link(latency=20e-6, bandwidth=2.0**30),
        "modules": tuple(
            ModuleCost(name=name, forward=0.005, backward=0.01, crossing=4 * MIB) for name in names
        ),
        "starts": tuple(names[2::2]),
        "stages": tuple(
            StagePrediction(
                start=names[2 * number],
                modules=2,
                forward=0.01,
                backward=0.02,
                sending=0.001,
                memory=(300 - 10 * number) * MIB,
                sent=4 * MIB,
            )
            for number in range(stages)
        ),
        "step": 0.155,
        "spread": 0.002,
        "choices": (
            PartitionChoice(
                objective="memory", partitions=2, microbatches=4, step=0.17, memory=280 * MIB
            ),
            PartitionChoice(
                objective="speed", partitions=4, microbatches=4, step=None, memory=None
            ),
        ),
    }
    return Partition(**{**given, **changes})
