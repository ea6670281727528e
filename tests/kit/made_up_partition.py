"""A partition with numbers that nobody has measured, for what only reads them."""

from __future__ import annotations

from typing import Any

from cut_model import consistent

from launcher import Partition
from launcher.shared import Fingerprint, Link, ModuleCost, PartitionChoice

MIB = 2**20


def made_up(**changes: Any) -> Partition:
    """Of two modules in each stage, which take 10 ms forward and 20 ms back; a cut costs 1 ms."""
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
        "link": Link(bandwidth=4 * MIB / 0.001),
        "modules": tuple(
            ModuleCost(
                name=name, forward=0.005, backward=0.01, parameters=146 * MIB, crossing=4 * MIB
            )
            for name in names
        ),
        "starts": tuple(names[2::2]),
        "stages": (),
        "step": 0.0,
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
    found = consistent(Partition(**{**given, **changes}))
    assert isinstance(found, Partition)
    return found
