"""Tied parameters: each stage that uses one has a copy, and the copies' gradients are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.gradients import fill
from launcher.parallel.stages import Stage


class Ties:
    """The tied parameters of a replica's stages. Created on all ranks, in the same order.

    model: that the stages are made from.
    """

    def __init__(self, model: nn.Module, stages: Sequence[Stage], world: ParallelContext) -> None:
        _check_buffers(model, stages)
        _check_memory(stages)
        self._groups: list[tuple[nn.Parameter, dist.ProcessGroup]] = []
        self._later: set[int] = set()  # ids of parameters that an earlier rank has as well
        groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        for parameter, holders in _shared(stages, world):
            if holders not in groups:
                groups[holders] = _group(holders, world)
            if world.pp_rank in holders:
                self._groups.append((parameter, groups[holders]))
                if world.pp_rank != holders[0]:
                    self._later.add(id(parameter))

    @property
    def parameters(self) -> list[nn.Parameter]:
        """This rank's parameters that other ranks of the replica have as well."""
        return [each for each, _ in self._groups]

    def counted(self, parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        """Return the parameters without copies on an earlier rank of the replica."""
        return [each for each in parameters if id(each) not in self._later]

    def replace(self, replaced: Mapping[int, nn.Parameter]) -> None:
        """Follow parameters to the sharded ones that replace them, by id."""
        self._groups = [(replaced[id(each)], group) for each, group in self._groups]
        self._later = {id(replaced[each]) for each in self._later}

    def add_gradients(self) -> None:
        """Give every copy the sum of the gradients, after the backward passes.

        Copies that are sharded are so in the same way: each rank adds its share.
        """
        for parameter, group in self._groups:
            if parameter.requires_grad:
                fill([parameter], group)
            if (gradient := parameter.grad) is not None:
                own = gradient.to_local() if isinstance(gradient, DTensor) else gradient
                dist.all_reduce(own, group=group)


def tied_names(model: nn.Module) -> dict[str, str]:
    """Map the later names of each parameter or buffer with several names to its first name."""
    state = {
        name: id(value)
        for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, torch.Tensor)
    }
    first: dict[int, str] = {}
    for name, value in state.items():
        first.setdefault(value, name)
    return {name: first[value] for name, value in state.items() if name != first[value]}


def _shared(
    stages: Sequence[Stage], world: ParallelContext
) -> Iterator[tuple[nn.Parameter, tuple[int, ...]]]:
    """Yield the parameters that more than one rank of a replica holds, with these ranks."""
    holders: dict[nn.Parameter, set[int]] = {}
    for number, stage in enumerate(stages):
        for parameter in stage.module.parameters():
            holders.setdefault(parameter, set()).add(world.degrees.holder(number))
    for parameter, found in holders.items():
        if len(found) > 1:
            yield parameter, tuple(sorted(found))


def _group(holders: tuple[int, ...], world: ParallelContext) -> dist.ProcessGroup:
    """Return the group of this rank's replica; all ranks create the groups of all replicas."""
    own = None
    for replica in world.degrees.grid:
        ranks = [replica[holder] for holder in holders]
        group = dist.new_group(ranks)
        if world.rank in replica:
            own = group
    assert own is not None
    return own


def _check_buffers(model: nn.Module, stages: Sequence[Stage]) -> None:
    """Reject shared buffers that change: copies of a mean would each see a part of the batches."""
    modes = [stage.in_mode(training) for stage in stages for training in (True, False)]
    changing = [model.get_submodule(name) for name in {n for mode in modes for n in mode.changing}]
    changed = {id(buffer) for module in changing for buffer in module.buffers()}
    seen: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for name, buffer in stage.module.named_buffers():
            first = seen.setdefault(id(buffer), number)
            if first != number and id(buffer) in changed:
                raise ParallelError(
                    f"stages {first} and {number} share the buffer {name}, and each would update "
                    "its own copy: put all calls of its module into one stage"
                )


def _check_memory(stages: Sequence[Stage]) -> None:
    """Reject parameters of several stages in the same memory: each stage would train a copy."""
    at: dict[int, tuple[int, str, nn.Parameter]] = {}
    for number, stage in enumerate(stages):
        for name, parameter in stage.module.named_parameters():
            if parameter.is_meta or not parameter.numel():
                continue
            first, other, there = at.setdefault(parameter.data_ptr(), (number, name, parameter))
            if first != number and there is not parameter:
                raise ParallelError(
                    f"{other} in stage {first} and {name} in stage {number} are two parameters in "
                    "the same memory (one was given the other's .data), and each stage would train "
                    "a copy: give both modules the parameter itself (decoder.weight = "
                    "encoder.weight)"
                )
