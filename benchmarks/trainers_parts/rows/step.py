"""A step of data parallel on the GPUs of this host: NCCL, and bfloat16 by autocast."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from table.figures import Figure
from trainers_parts.bench import Bench
from trainers_parts.rows.overhead import compared


def measure(bench: Bench) -> Iterator[Figure]:
    ranks = torch.cuda.device_count()
    if not ranks:
        yield Figure(row="step", what="NCCL, bf16", values=[], note="there is no GPU here")
        return
    shape = bench.pick({"width": 2048, "layers": 24, "heads": 16, "length": 1024}, {})
    runs = [
        bench.run(
            "replicas",
            ranks=ranks,
            shape=shape,
            samples=bench.pick(8, 2),
            is_half=True,
            pairs=bench.pick(15, 2),
            block=bench.pick(4, 1),
        )
        for _ in range(bench.rounds)
    ]
    yield Figure(row="step", what=torch.cuda.get_device_name(), values=[ranks], unit="GPUs")
    yield from compared("step", "NCCL, bf16", runs, most_percent=2)
