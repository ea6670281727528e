"""Steps of a data-parallel model whose accelerator is elsewhere: it sleeps, and the rest is real.

Each block waits for a third of its seconds forward and for two thirds backward, and has a gradient,
which DistributedDataParallel sums over gloo while the blocks before it are still on their way.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

ranks, blocks, steps = (int(os.environ[f"BENCH_{name}"]) for name in ("RANKS", "BLOCKS", "STEPS"))
seconds, megabytes = (float(os.environ[f"BENCH_{name}"]) for name in ("GPU", "MEGABYTES"))


class Waiting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        time.sleep(seconds / blocks / 3)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(seconds / blocks * 2 / 3)
        (weight,) = ctx.saved_tensors
        return gradient, torch.zeros_like(weight)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(round(megabytes * 1e6 / 4 / blocks)))

    def forward(self, x):
        return Waiting.apply(x, self.weight)


torch.set_num_threads(1)
model = nn.Sequential(*(Block() for _ in range(blocks)))
if ranks > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
found = []
for _ in range(steps + 2):
    at = time.perf_counter()
    optimizer.zero_grad()
    model(torch.zeros(1, requires_grad=True)).sum().backward()
    optimizer.step()
    found.append(time.perf_counter() - at)
if int(os.environ.get("RANK", "0")) == 0:
    print(f"timed: {json.dumps(found[2:])}", flush=True)
if ranks > 1:
    dist.destroy_process_group()
