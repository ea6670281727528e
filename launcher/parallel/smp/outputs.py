"""Return values of a step function, for all microbatches, on all ranks of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext


class StepOutput:
    """A tensor that a step function returned, once for each microbatch."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        self.outputs = list(outputs)

    def __getitem__(self, microbatch: int) -> torch.Tensor:
        return self.outputs[microbatch]

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.outputs)

    def reduce_mean(self) -> torch.Tensor:
        """Return the mean over the microbatches."""
        return self.stack().mean(dim=0)

    def reduce_sum(self) -> torch.Tensor:
        """Return the sum over the microbatches."""
        return self.stack().sum(dim=0)

    def concat(self) -> torch.Tensor:
        """Concatenate along the sample axis; scalars become a vector."""
        return torch.cat([torch.atleast_1d(each) for each in self.outputs])

    def stack(self) -> torch.Tensor:
        """Stack along a new first axis."""
        return torch.stack(self.outputs)

    def __repr__(self) -> str:
        return f"StepOutput({self.outputs!r})"


def broadcast_outputs(returned: Sequence[object], world: ParallelContext) -> list[Any]:
    """Return the last stage's return values of all microbatches on all ranks of the replica."""
    found = [tree_map_only(torch.Tensor, lambda tensor: tensor.detach(), each) for each in returned]
    if world.degrees.pipeline == 1:
        return found
    last = world.degrees.holder(world.degrees.stages - 1)
    received = [tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), found)]
    dist.broadcast_object_list(received, group=world.pp_group, group_src=last, device=world.device)
    if world.pp_rank == last:
        return found
    (here,) = tree_map_only(torch.Tensor, lambda tensor: tensor.to(world.device), received)
    return list(here)


def merge(name: str, returned: Sequence[object]) -> object:
    """Return the common structure of all microbatches, with a StepOutput for each tensor.

    A number becomes the list of those of all microbatches.

    name: the step function's name. Raises ParallelError for other values that differ.
    """
    flat, (spec, *others) = zip(*map(tree_flatten, returned), strict=True)
    if any(other != spec for other in others):
        raise ParallelError(
            f"{name} returned different structures for different microbatches: {returned!r}"
        )
    return tree_unflatten([_merged(name, values) for values in zip(*flat, strict=True)], spec)


def _merged(name: str, values: tuple[object, ...]) -> Any:
    first, *others = values
    if isinstance(first, torch.Tensor):
        return StepOutput(values)
    if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in values):
        return list(values)
    if any(other != first for other in others):
        raise ParallelError(
            f"{name} returned {first!r} for one microbatch and {others!r} for others: return "
            "torch.tensor(...) instead"
        )
    return first
