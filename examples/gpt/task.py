"""What is trained: `task: "task:make"` in a job, whose hyperparameters are the arguments."""

from __future__ import annotations

import torch
from model import Gpt
from pipeline import CHARACTERS, LENGTH
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from launcher.trainers import Task

WARM_UP = 10  # steps in which the learning rate rises


def make(
    *,
    epochs: int = 4,
    batch_size: int = 32,
    width: int = 64,
    layers: int = 4,
    heads: int = 4,
    dropout: float = 0.1,
    lr: float = 0.004,
) -> Task:
    def model() -> Gpt:
        return Gpt(
            characters=len(CHARACTERS),
            length=LENGTH,
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
        )

    return Task(
        model=model,
        train_data="pipeline:train_set",
        validation_data="pipeline:validation_set",
        loss=lambda logits, ids: cross_entropy(logits.flatten(0, 1), ids.flatten()),
        metrics={"accuracy": share_of_right_answers},
        optimizer=lambda parameters: AdamW(parameters, lr=lr),
        scheduler=lambda optimizer: LambdaLR(optimizer, lambda step: min(1, (step + 1) / WARM_UP)),
        batch_size=batch_size,
        epochs=epochs,
        clip_norm=1.0,
        patience=2,
    )


def share_of_right_answers(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return (logits.argmax(dim=-1) == ids).float().mean()
