"""A task whose model has four parts, each of which computes for a time."""

import torch
from torch import nn
from work import SETTINGS, burn

from launcher.trainers import Task

torch.set_num_threads(1)


class Part(nn.Module):
    """part_cpu: seconds of a whole batch of a rank; a microbatch needs its share."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        burn(SETTINGS["part_cpu"] * len(x) / SETTINGS["rank_batch"])
        return self.linear(x)


def loss(output, target):
    return (output.mean(1) - target).square().mean()


def make() -> Task:
    width = SETTINGS["numbers"]
    return Task(
        model=lambda: nn.Sequential(*(Part(width) for _ in range(4))),
        train_data="pipeline:train_set",
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4),
        batch_size=SETTINGS["batch"],
        epochs=1,
        seed=SETTINGS["seed"],
    )
