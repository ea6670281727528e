"""Out of memory: what is predicted is what is used, and a rank says what to try."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tasks import run

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - they need torch
from torch.autograd.graph import saved_tensors_hooks  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from launcher.trainers import measure  # noqa: E402


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.feed = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.feed(self.norm(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 32)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(32, 1)
        self.recomputes = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        return self.head(x)[:, 0]


def kept(model: nn.Module, task: Any, batch: Any, precision: Any) -> int:
    """Bytes that autograd keeps of a real forward pass, parameters aside."""
    storages = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), precision:
        loss = task.loss(model(batch[0]), batch[1])
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    del loss
    return sum(size for place, size in storages.items() if place not in own)


@pytest.fixture
def task(make: Callable[..., Any]) -> Any:
    return make(model=Stack)


@pytest.fixture
def batch() -> Any:
    return torch.randn(5, 6), torch.randn(5)


@pytest.mark.parametrize("low", [False, True], ids=["as it is", "bf16"])
def test_activations_are_as_many_bytes_as_were_predicted(task: Any, batch: Any, low: bool) -> None:
    """Of 5 samples, from what was measured with one and two, without running the model."""
    found = measure(task, ((batch[0],), batch[1])).activations[low, False]
    precision = torch.autocast("cpu", torch.bfloat16) if low else nullcontext()
    real = kept(Stack(), task, batch, precision)
    # The fake LayerNorm has statistics of 16 bits, and the real one, on a CPU, of 32.
    assert found.fixed + 5 * found.sample == pytest.approx(real, rel=0.01 if low else 0)


def test_what_is_kept_of_blocks_that_are_computed_again(task: Any, batch: Any) -> None:
    """Their inputs and what is outside of them; and in the backward pass the inside of one."""
    found = measure(task, ((batch[0],), batch[1])).activations[False, True]
    model = Stack()
    model.recomputes = True
    outside = kept(model, task, batch, nullcontext())
    inputs = 3 * batch[0].shape[0] * 32 * 4  # one for each block, kept by checkpoint() itself
    inside = kept(Block(), task, (torch.randn(5, 32), torch.randn(5, 32)), nullcontext())
    predicted = found.fixed + 5 * found.sample
    assert outside + inputs < predicted <= outside + inputs + inside


def test_parameters_gradients_and_states_are_as_many_bytes_as_were_predicted(
    task: Any, batch: Any
) -> None:
    found = measure(task, ((batch[0],), batch[1]))
    model = Stack()
    optimizer = task.optimizer(list(model.parameters()))
    task.loss(model(batch[0]), batch[1]).backward()
    optimizer.step()
    assert found.parameters == sum(each.nbytes for each in model.parameters())
    assert found.gradients == sum(each.grad.nbytes for each in model.parameters())
    kept = [v for each in optimizer.state.values() for v in each.values() if v.ndim]
    assert found.states == sum(each.nbytes for each in kept)
    assert found.largest == sum(each.nbytes for each in Block().parameters())
    assert found.rest == found.parameters - 3 * found.largest


#: 100 MB of parameters, where 250 MB are left: gradients fit, and what AdamW keeps does not.
_LARGE = """
import resource
import torch
from torch import nn
from launcher.trainers import Task

def model():
    made = nn.Sequential(
        nn.Linear(6, 2500), nn.Linear(2500, 2500), nn.Linear(2500, 2500), nn.Linear(2500, 2500),
        nn.Linear(2500, 2500), nn.Linear(2500, 1), nn.Flatten(0)
    )
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 250_000_000, resource.RLIM_INFINITY))
    return made

def make():
    return Task(
        model=model,
        train_data="pipeline:train_set",
        split=lambda batch: ((batch[0].float(),), batch[1].float()),
        loss=lambda output, target: (output - target).square().mean(),
        optimizer=torch.optim.AdamW,
        batch_size=12,
        epochs=1,
    )
"""


@pytest.mark.long
def test_a_rank_that_is_out_of_memory_suggests_changes(tmp_path: Path) -> None:
    outcome = run(tmp_path, ranks=1, task=_LARGE)
    assert outcome.code == 1
    words = outcome.output[outcome.output.index("ParallelError: out of memory: ") :]
    assert "can't allocate memory: you tried to allocate" in words
    assert re.search(
        r"needs about 401 MB \(parameters 100 MB, gradients 100 MB, states 200 MB, activations "
        r"\d+ kB\) for 12 samples at once",
        words,
    )
    for rung in ("accumulation: 12", "sharded: true, on 2 ranks", "partitions: 2, microbatches: "):
        assert re.search(rf"\d+ MB  .*{rung}", words), words
