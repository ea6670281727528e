"""The training script: some steps that do not count, then others that are timed.

With BENCH_ALONE, all steps train on one batch that is kept, and their CPU seconds are printed too.
"""

import itertools
import json
import os
import time

import work_samples

from launcher.data import DataLoader

size, warm, steps = (int(os.environ[f"BENCH_{name}"]) for name in ("BATCH", "WARM", "STEPS"))


def model_step():
    """A small network for images, on one thread."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 15 * 15, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(batch):
        images, labels = (torch.as_tensor(each) for each in batch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def perceptron_step():
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
    kind, _, amount = os.environ["BENCH_TRAIN"].partition(":")
    if kind == "model":
        return model_step()
    if kind == "perceptron":
        return perceptron_step()
    if kind == "sleep":
        return lambda _: time.sleep(float(amount))
    return lambda _: work_samples._burn(float(amount))


def batches():
    loader = DataLoader("work_samples:train_set", batch_size=size, epochs=None, tensors=False)
    reading = iter(loader)
    if not os.environ.get("BENCH_ALONE"):
        return reading
    return itertools.repeat(next(reading))


step, reading = make_step(), batches()
for batch in itertools.islice(reading, warm):
    step(batch)
began, cpu = time.perf_counter(), time.process_time()
for batch in itertools.islice(reading, steps):
    step(batch)
found = {
    "seconds": (time.perf_counter() - began) / steps,
    "cpu": (time.process_time() - cpu) / steps,
}
print(f"timed: {json.dumps(found)}", flush=True)
