"""The batches of a replica: training batches by optimizer step, and validation batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from launcher.data import DataLoader, LoaderOptions
from launcher.errors import ParallelError
from launcher.parallel import ParallelContext
from launcher.parallel.tracing import flatten
from launcher.trainers.task import Arguments, Batch, Task


class TrainingBatches:
    """One replica's training batches. All ranks of the replica read the same ones."""

    def __init__(self, task: Task, world: ParallelContext) -> None:
        self._split = task.split
        self._batch_size = task.batch_size
        self._accumulation = world.degrees.accumulation
        self.loader = DataLoader(
            task.train_data,
            world.degrees.batch,
            shuffle=True,
            seed=task.seed,
            drop_last=True,
            epochs=task.epochs,
            options=LoaderOptions(
                rank=world.dp_rank,
                world_size=world.degrees.data,
                allow_empty=True,  # refused below, where the optimizer step's size is known
            ),
        )
        self.loader.set_epoch(0)  # each training of a process begins there
        #: Optimizer steps per epoch.
        self.steps = len(self.loader) // self._accumulation
        if not self.steps:
            raise ParallelError(
                f"{task.train_data} has fewer samples than one optimizer step needs "
                f"({task.batch_size}): use a smaller batch_size"
            )

    def epoch(self) -> Iterator[list[Batch]]:
        """Yield the batches of each optimizer step, whose gradients are accumulated."""
        reading = iter(self.loader)
        for batches in zip(
            *[reading] * self._accumulation, strict=False
        ):  # drops an incomplete last step
            yield [self._split(batch) for batch in batches]

    def check_resumed(self, step: int) -> None:
        """Raise ParallelError unless that many steps lead to the loader's resume point."""
        epoch, taken = divmod(step, self.steps)
        state = self.loader.state_dict()
        if (state["epoch"], state["position"]) != (epoch, taken * self._batch_size):
            raise ParallelError(
                f"the checkpoint of step {step} is at sample {state['position']} of epoch "
                f"{state['epoch']}, which no {step} steps with a batch_size of {self._batch_size} "
                "reach: use the batch_size that it was saved with, or start without checkpoints"
            )

    def example(self) -> Batch:
        """Return the first batch, which will be read again."""
        batch = next(iter(self.loader))
        self.loader.set_epoch(0)
        return self._split(batch)


class ValidationBatches:
    """One replica's validation batches. All replicas together read each sample once."""

    def __init__(self, task: Task, world: ParallelContext) -> None:
        self._split = task.split
        self._dp_rank = world.dp_rank
        self._loader = DataLoader(
            task.validation_data or task.train_data,
            world.degrees.batch,
            name="validation",
            options=LoaderOptions(rank=world.dp_rank, world_size=world.degrees.data),
        )
        #: Samples per step of all replicas.
        self._stride = (world.degrees.batch or 0) * world.degrees.data

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        """Yield each batch and the number of its samples that count; padding is at the end."""
        full, rest = divmod(self._loader.samples, self._stride)
        for step, batch in enumerate(self._loader):
            arguments, target = self._split(batch)
            size = size_of(arguments)
            counted = size if step < full else min(max(rest - self._dp_rank * size, 0), size)
            yield (arguments, target), counted


def call(function: Callable[..., Any], arguments: Arguments, **options: object) -> Any:
    """Call a function with the model's arguments, by position or by name, and with options."""
    if isinstance(arguments, dict):
        return function(**arguments, **options)
    return function(*arguments, **options)


def by_name(model: nn.Module, arguments: Arguments) -> dict[str, Any]:
    """Return a model's arguments by name."""
    if isinstance(arguments, dict):
        return arguments
    return dict(zip(inspect.signature(model.forward).parameters, arguments, strict=False))


def size_of(arguments: object) -> int:
    """Return the number of samples of a batch."""
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    if not tensors or not tensors[0].ndim:
        raise ParallelError(
            "the model's arguments contain no tensor whose first dimension is the samples: the "
            f"Task's split returned {arguments!r:.200}"
        )
    return len(tensors[0])


def move_to_device(tree: object, device: torch.device) -> Any:
    """Move the tensors of a tree to a device."""
    return tree_map_only(torch.Tensor, lambda leaf: leaf.to(device, non_blocking=True), tree)


def pad(tree: object, size: int) -> Any:
    """Pad a batch to a size with copies of its last sample."""

    def fill(leaf: torch.Tensor) -> torch.Tensor:
        return torch.cat([leaf, leaf[-1:].expand(size - len(leaf), *leaf.shape[1:])])

    return tree_map_only(torch.Tensor, fill, tree)


def take_first(tree: object, count: int, of: int) -> Any:
    """Return a batch's first `count` of `of` samples; a tensor may have several rows per sample."""

    def cut(leaf: torch.Tensor) -> torch.Tensor:
        return leaf[: len(leaf) * count // of] if leaf.ndim else leaf

    flatten(tree)  # dataclasses become structures
    return tree_map_only(torch.Tensor, cut, tree)
