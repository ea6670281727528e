"""torch's DataLoader: worker processes of this host, which hand tensors over in shared memory.

read 0 ready      one worker, batches that are in its memory already
read 0 burning    two workers, batches of samples that take work
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import consumer
import pipeline
import variables
from checks import Indices
from torch.utils.data import DataLoader


def read_ready() -> Iterator[object]:
    for batch in DataLoader(pipeline.ready(), batch_size=None, num_workers=1):
        yield batch.numpy()


def read_burning() -> None:
    samples, size = (int(os.environ[name]) for name in (variables.BATCH, variables.SAMPLE_BYTES))
    loader = DataLoader(pipeline.burning(), batch_size=samples, num_workers=2)
    consumer.serve(iter(loader), Indices(samples, size))


if __name__ == "__main__":
    if sys.argv[3] == "ready":
        consumer.serve(read_ready())
    else:
        read_burning()
