"""The training script: some steps that do not count, then others that are timed.

seconds: from batch to batch. step_seconds, step_cpu: of the script alone, between two batches.
"""

import itertools
import json
import os
import time

import work_samples

from launcher.data import DataLoader

size, warm, steps = (int(os.environ[f"BENCH_{name}"]) for name in ("BATCH", "WARM", "STEPS"))


def model_step():
    """A perceptron for small images, on one thread."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch):
        images, labels = (torch.as_tensor(each) for each in batch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def make_step():
    kind, _, units = os.environ["BENCH_TRAIN"].partition(":")
    if kind == "model":
        return model_step()
    return lambda _: work_samples._burn(float(units))


step = make_step()
reading = iter(DataLoader("work_samples:train_set", batch_size=size, epochs=None, tensors=False))
for batch in itertools.islice(reading, warm):
    step(batch)
began, in_steps, cpu = time.perf_counter(), 0.0, 0.0
for batch in itertools.islice(reading, steps):
    at, cpu_at = time.perf_counter(), time.thread_time()
    step(batch)
    in_steps, cpu = in_steps + time.perf_counter() - at, cpu + time.thread_time() - cpu_at
found = {
    "seconds": (time.perf_counter() - began) / steps,
    "step_seconds": in_steps / steps,
    "step_cpu": cpu / steps,
}
print(f"timed: {json.dumps(found)}", flush=True)
