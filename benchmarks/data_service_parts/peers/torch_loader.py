"""torch's DataLoader: worker processes of this host, which hand tensors over in shared memory.

read 0                one worker, batches that are in its memory already
read 0 burning COUNT  two workers, batches of COUNT samples that take work
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import consumer
import pipeline
from torch.utils.data import DataLoader


def read_ready() -> Iterator[object]:
    loader = DataLoader(pipeline.ready(), batch_size=None, num_workers=1)
    for batch in loader:
        yield batch.numpy()


if __name__ == "__main__":
    consumer.serve(read_ready())
