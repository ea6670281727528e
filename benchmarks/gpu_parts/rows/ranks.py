"""DDP and FSDP2 over NCCL, on all GPUs of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpu_parts import gpus
from gpu_parts.rows.overhead import compared
from table.figures import Figure
from trainers_parts.bench import Bench


def measure(bench: Bench) -> Iterator[Figure]:
    ranks = torch.cuda.device_count()
    for kind, name in (("ddp", "DDP by hand"), ("fsdp2", "FSDP2 by hand")):
        yield from compared(bench, "ranks", kind, name, ranks=ranks)
        if absent := gpus.missing("ranks", f"{name}, gradients that cross a link", 2):
            yield absent
