"""torch's DataLoader: worker processes on the trainer's host. Usage: read 0 WORKERS."""

from __future__ import annotations

import os
import sys

import consumer
import datasets
import work
from samples_check import Samples
from torch.utils.data import DataLoader

if __name__ == "__main__":
    loader = DataLoader(
        datasets.samples(), batch_size=int(os.environ[work.BATCH]), num_workers=int(sys.argv[3])
    )
    consumer.serve(iter(loader), Samples())
