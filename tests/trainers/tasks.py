"""Jobs that name a task, run on ranks as a host starts them; and what one process makes of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_ranks import run_ranks

from launcher.shared import parse_event

REPOSITORY = Path(__file__).parents[2]
#: Seconds for ranks that import torch, on a machine that is busy.
PATIENCE = 240

#: Points and what is to be learned of them: 70 to learn from, and 21 to be judged by.
PIPELINE = """
import numpy as np

class Points:
    def __init__(self, length, first):
        self.length, self.first = length, first
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        draw = np.random.default_rng(self.first + index)
        x = draw.normal(size=6)
        return x, np.sin(x).sum()

def train_set():
    return Points(70, 0)

def validation_set():
    return Points(21, 1000)
"""

TASK = """
import torch
from torch import nn
from launcher.trainers import Task

class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        parts = lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(dropout))
        self.layers = nn.ModuleList([parts() for _ in range(3)])
        self.head = nn.Linear(6, 1)
        self.unused = nn.Linear(2, 2)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)[:, 0]

def loss(output, target):
    return (output - target).square().mean()

def make(epochs=3, batch_size=12, dropout=0.0, **changes):
    given = dict(
        model=lambda: Net(dropout).double(),
        train_data="pipeline:train_set",
        validation_data="pipeline:validation_set",
        loss=loss,
        metrics={"distance": lambda output, target: (output - target).abs().mean()},
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
        scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.5),
        batch_size=batch_size,
        epochs=epochs,
        clip_norm=0.5,
        seed=3,
    )
    return Task(**{**given, **changes})
"""


def lines(text: str, name: str) -> list[dict[str, Any]]:
    """The fields of all event lines of a name."""
    found = filter(None, map(parse_event, text.splitlines()))
    return [fields for event, fields in found if event == name]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended."""

    code: int
    output: str
    folder: Path

    def events(self, name: str) -> list[dict[str, Any]]:
        return lines(self.output, name)

    def weights(self) -> dict[str, Any]:
        import torch

        weights: dict[str, Any] = torch.load(self.folder / "model" / "model.pt", weights_only=True)
        return weights


def run(
    folder: Path,
    *,
    ranks: int,
    task: str = TASK,
    parallel: dict[str, Any] | None = None,
    hyperparameters: dict[str, Any] | None = None,
    name: str = "job",
    **variables: str,
) -> Outcome:
    """Run a task on so many forked ranks, as torchrun does; on one, as plain Python."""
    job = folder / name
    job.mkdir(parents=True, exist_ok=True)
    (job / "pipeline.py").write_text(PIPELINE)
    (job / "task.py").write_text(task)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
        "SM_MODULE_DIR": str(job),
        "SM_MODEL_DIR": str(job / "model"),
        "SM_HPS": json.dumps(hyperparameters or {}),
        "LAUNCHER_TASK": "task:make",
        "LAUNCHER_PARALLEL": json.dumps(parallel or {}),
        **variables,
    }
    code, output = run_ranks(
        *("-m", "launcher.trainers"),
        ranks=ranks,
        variables=environment,
        output=job / "output.log",
        patience=PATIENCE,
    )
    return Outcome(code=code, output=output, folder=job)


def alone(task: Any) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """What one process makes of a task, in a loop that knows nothing of ours.

    Returns the weights, and the means over the validation data after each epoch.
    """
    import torch

    from launcher.data import DataLoader

    torch.manual_seed(task.seed)
    model = task.model()
    optimizer = task.optimizer(list(model.parameters()))
    scheduler = task.scheduler(optimizer)
    loader = DataLoader(
        task.train_data, task.batch_size, shuffle=True, seed=task.seed, drop_last=True
    )
    told: list[dict[str, float]] = []
    waited, best = 0, float("inf")
    for _ in range(task.epochs):
        for *arguments, target in loader:
            optimizer.zero_grad()
            task.loss(model(*arguments), target).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), task.clip_norm)
            optimizer.step()
            scheduler.step()
        told.append(judged(task, model))
        waited = 0 if told[-1]["loss"] < best else waited + 1
        best = min(best, told[-1]["loss"])
        if waited == task.patience:
            break
    return model.state_dict(), told


def judged(task: Any, model: Any) -> dict[str, float]:
    """The means over the validation data, taken whole."""
    import torch

    from launcher.data import DataLoader

    *arguments, target = next(iter(DataLoader(task.validation_data, 1000)))
    with torch.no_grad():
        output = model.eval()(*arguments)
    model.train()
    measures = {"loss": task.loss, **task.metrics}
    return {name: measure(output, target).item() for name, measure in measures.items()}


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The greatest relative difference between two states of the same names."""
    assert one.keys() == other.keys()
    return max(
        ((one[name] - other[name]).double().norm() / one[name].double().norm()).item()
        for name in one
    )
