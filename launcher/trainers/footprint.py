"""Measures the memory of a task's model without allocating it, with torch's fake tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves, tree_map_only

from launcher.parallel import sharding
from launcher.shared import Activations, Footprint
from launcher.trainers.batches import call, pad, size_of, take_first
from launcher.trainers.task import Batch, Task


def measure(task: Task, example: Batch) -> Footprint:
    """Return the footprint of a task's model, which is built anew and run on one and two samples.

    Raises whatever a model raises whose forward pass depends on tensor values.
    """
    samples = [_samples(example, count) for count in (1, 2)]
    states = states_per_parameter(task)
    with FakeTensorMode() as mode:
        batches = [tree_map_only(torch.Tensor, mode.from_tensor, each) for each in samples]
        model = task.new_model()
        blocks = _blocks(model)
        gathered = [_bytes(each) for each in sharding.blocks(model)]
        activations = {}
        for low in (False, True):
            runs = [_run(task, model, blocks, batch, low) for batch in batches]
            for recomputed, (one, two) in enumerate(zip(*runs, strict=True)):
                if blocks or not recomputed:
                    found = Activations(sample=two - one, fixed=2 * one - two)
                    activations[low, bool(recomputed)] = found
        return Footprint(
            parameters=_bytes(model),
            gradients=_bytes(model, trained=True),
            states=_bytes(model, trained=True) * states,
            largest=max(gathered, default=0),
            rest=_bytes(model) - sum(gathered),
            activations=activations,
        )


def _bytes(module: nn.Module, *, trained: bool = False) -> int:
    return sum(each.nbytes for each in module.parameters() if each.requires_grad or not trained)


def states_per_parameter(task: Task) -> int:
    """Count the optimizer's tensors of a parameter's size, from a step on a small parameter.

    It is on a GPU if there is one: some optimizers (capturable=True, of 8 bits) step only there.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parameter = nn.Parameter(torch.zeros(2, 3, device=device))
    optimizer = task.optimizer([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    states = tree_leaves(optimizer.state[parameter])
    return sum(torch.is_tensor(each) and each.shape == parameter.shape for each in states)


def block_list(model: nn.Module) -> str | None:
    """Return the name of the largest module list, whose modules are recomputed one by one."""
    longer = {
        name: each
        for name, each in model.named_modules()
        if isinstance(each, (nn.ModuleList, nn.Sequential)) and len(each) > 1
    }
    return max(
        longer, key=lambda name: sum(p.numel() for p in longer[name].parameters()), default=None
    )


def _blocks(model: nn.Module) -> list[nn.Module]:
    name = block_list(model)
    return [] if name is None else list(model.get_submodule(name).children())


def _samples(example: Batch, count: int) -> Batch:
    size = size_of(example[0])
    return pad(take_first(example, min(count, size), size), count)  # type: ignore[no-any-return]


@dataclass
class _Kept:
    """The storages that autograd keeps. inside: within each block; outside: in no block."""

    outside: dict[int, int] = field(default_factory=dict)
    inside: list[dict[int, int]] = field(default_factory=list)
    block: int | None = None

    @property
    def all(self) -> int:
        """The bytes of everything that is kept."""
        together = dict(self.outside)
        for each in self.inside:
            together |= each
        return sum(together.values())

    @property
    def recomputed(self) -> int:
        """The bytes outside blocks, including block inputs, plus the largest block's inside."""
        inside = [{k: v for k, v in each.items() if k not in self.outside} for each in self.inside]
        return sum(self.outside.values()) + max((sum(i.values()) for i in inside), default=0)


def _run(
    task: Task, model: nn.Module, blocks: list[nn.Module], batch: Batch, low: bool
) -> tuple[int, int]:
    """Return the bytes kept by a forward pass: in full, and with blocks recomputed."""
    own = {_place(each) for each in (*model.parameters(), *model.buffers())}
    kept = _Kept(inside=[{} for _ in blocks])
    inputs: list[dict[int, int]] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if _place(tensor) not in own:
            where = kept.outside if kept.block is None else kept.inside[kept.block]
            where[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    def enter(number: int) -> Any:
        def hook(module: nn.Module, arguments: object) -> None:
            kept.block = number
            inputs.append({_place(t): t.untyped_storage().nbytes() for t in _tensors(arguments)})

        return hook

    def leave(*_: object) -> None:
        kept.block = None

    hooks = [block.register_forward_pre_hook(enter(n)) for n, block in enumerate(blocks)]
    hooks += [block.register_forward_hook(leave) for block in blocks]
    arguments, target = batch
    precision = torch.autocast("cpu", torch.bfloat16) if low else nullcontext()
    with precision, saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = task.scalar_loss(call(model, arguments), target)
    whole = kept.all
    for each in inputs:
        kept.outside |= each
    for hook in hooks:
        hook.remove()
    del loss  # kept until here, so that no storage's address was reused
    return whole, kept.recomputed


def _place(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(tree: object) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
