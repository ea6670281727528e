"""A model that is trained under a limit of memory, which every rank sets itself.

Each rank leaves its own words in a folder, since one that dies takes the others with it.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from launcher import parallel
from partition_parts.inside.models import pyramid
from partition_parts.inside.subject import Batch, Subject, piped
from trainers_parts.inside.clock import seconds
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=told["stages"], microbatches=told["microbatches"])
    subject = pyramid(**told["shape"])
    data = subject.batch(subject.samples * world.degrees.microbatches)
    seconds(lambda: None)  # ranks connect
    before, mapped = _status("VmData"), _status("VmPeak")
    if told["limit"]:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (before + int(told["limit"]), hard))
    made, died = 0, ""
    try:
        for _ in islice(_training(subject, world, told["starts"], data), told["steps"]):
            made += 1
    except (RuntimeError, MemoryError) as error:
        died = f"{type(error).__name__}: {error}"
    words = {"steps": made, "died": died, "used": _status("VmPeak") - mapped}
    Path(told["folder"], f"{world.rank}.json").write_text(json.dumps(words))
    tell(None)
    os._exit(0)  # a rank may have died, and then there is nobody to say goodbye to


def _training(
    subject: Subject, world: parallel.ParallelContext, starts: Sequence[str], data: Batch
) -> Iterator[None]:
    """A step at a time."""
    pipeline = piped(subject, world, starts)
    optimizer = torch.optim.AdamW(pipeline.parameters())
    while True:
        optimizer.zero_grad()
        pipeline.step(data[0], target=data[1])
        optimizer.step()
        yield


def _status(name: str) -> int:
    """Bytes, of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(found.split()[1]) * 1024


if __name__ == "__main__":
    main()
