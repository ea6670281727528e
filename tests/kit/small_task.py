"""A folder with a task that trains in milliseconds, to be cut."""

from __future__ import annotations

from pathlib import Path

TASK = """
import torch
from torch import nn
from launcher.trainers import Task

def make(layers=6, width=8):
    def model():
        return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
    return Task(
        model=model,
        train_data="task:train_set",
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=8,
        epochs=1,
    )

def train_set():
    torch.manual_seed(0)
    return [(torch.randn(8), torch.randn(8)) for _ in range(8)]
"""


def write_task(folder: Path, text: str = TASK) -> None:
    (folder / "task.py").write_text(text)
