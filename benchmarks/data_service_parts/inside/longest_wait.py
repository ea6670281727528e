"""The training script that prints its longest waits for a batch: undisturbed, and after that."""

import os
import time

import variables

from launcher.data import DataLoader


def longest(batches, seconds):
    waits = []
    before = start = time.perf_counter()
    while before - start < seconds:
        next(batches)
        now = time.perf_counter()
        waits.append(now - before)
        before = now
    return max(waits)


batches = iter(DataLoader(os.environ[variables.DATASET], batch_size=8))
longest(batches, 1.0)
print(f"usual={longest(batches, 2.0)}", flush=True)
print(f"disturbed={longest(batches, 8.0)}", flush=True)
