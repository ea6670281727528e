"""The model of all fixtures, and a task that trains it."""

from __future__ import annotations

import torch
from torch import nn

from launcher.trainers import Task


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def make(epochs: int = 1) -> Task:
    return Task(
        model=Small,
        train_data="compatibility_samples:points",
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
        batch_size=4,
        epochs=epochs,
    )
