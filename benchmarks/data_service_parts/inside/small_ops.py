"""The training script whose steps are bound by launching: 150 tiny operations of torch.

It takes a batch whenever one is due at the rate that it is told, or none at all.
"""

import time

import consumer
import torch

from launcher.data import DataLoader

_OPERATIONS = 150


def step(state):
    for _ in range(_OPERATIONS):
        state = state + 1.0
    return state


def run(batches, seconds, every):
    """Steps and batches a second, for so long; a batch is due every so many seconds."""
    steps = taken = 0
    state = torch.zeros(16)
    start = now = time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        if every and (taken + 1) * every <= now - start:
            next(batches)
            taken += 1
        state = step(state)
        steps += 1
    elapsed = time.perf_counter() - start
    return {"steps": steps / elapsed, "batches": taken / elapsed}


torch.set_num_threads(1)
batches = iter(DataLoader("pipeline:ready", batch_size=None))
connection = consumer.HarnessConnection()
next(batches)
while (order := connection.receive()) is not None:
    connection.send(**run(batches, order["seconds"], order["every"]))
