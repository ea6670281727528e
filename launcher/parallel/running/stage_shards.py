"""FSDP2 within the stages of a pipeline: replicas of a stage share parameters and optimizer state.

torch's pipelines expect each stage to be an FSDP module. Here all stages of a rank are calls of one
FSDP module: they can share parameters, and exist once for each mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.gradients import fill
from launcher.parallel.running.elsewhere import replace
from launcher.parallel.sharding import attributes_kept, check_hooks


class StageShards:
    """The stages of a rank, sharded in place over the ranks of its `shard_mesh`.

    Parameters are gathered block by block when a block runs, in the forward and in the backward
    pass of each microbatch; whatever is in no block is gathered together. Gradients are added up
    unsharded, and `reduce` leaves each rank its share of their means.

    module: holds all parameters of the stages. graphs: the stages, in both modes. blocks: modules
    that are gathered one by one, if every stage calls them as a whole. keep_gathered: gather each
    block once per optimizer step, which takes the memory of whole stages; needed for backward
    passes in two parts, of which the second calls no module.

    Raises ParallelError for parameters that cannot be sharded.
    """

    def __init__(
        self,
        module: nn.Module,
        graphs: Sequence[fx.GraphModule],
        blocks: Collection[nn.Module],
        world: ParallelContext,
        mesh: DeviceMesh,
        *,
        keep_gathered: bool = False,
    ) -> None:
        self._world = world
        self._keep_gathered = keep_gathered
        self._host: Any = _Host(module)  # FSDP2 adds methods to its class
        check_hooks(self._host)
        units = [each for each in blocks if _is_called_whole(each, graphs)]
        _check_parameters(self._host, units)
        whole = dict(self._host.named_parameters(remove_duplicate=False))
        self._slots = {graph: list(_slots_outside(self._host, graph)) for graph in graphs}
        self._units = [*units, self._host]
        with attributes_kept(self._host):
            for unit in self._units:
                fully_shard(unit, mesh=mesh, reshard_after_forward=not keep_gathered)
        shares = dict(self._host.named_parameters(remove_duplicate=False))
        #: The sharded parameters, by the ids of those that they replace.
        self.replaced = {id(parameter): shares[name] for name, parameter in whole.items()}
        self._keep_alive = list(whole.values())  # their ids are keys
        for name, parameter in whole.items():  # the whole model, too, still refers to them
            replace(
                parameter,
                f"{name} was replaced by this rank's share of it when the pipeline was created, so "
                "it is never trained: create optimizers from pipeline.parameters()",
            )
        self._gathered: dict[int, nn.Parameter] = {}
        for unit in self._units:
            unit.register_forward_pre_hook(self._note_gathered)
        self._set_reducing(False)

    @property
    def module(self) -> nn.Module:
        """All parameters and buffers of the stages, under the model's own names."""
        return self._host

    def caller(self, graph: fx.GraphModule) -> Callable[..., Any]:
        """Return a function that calls a stage with its parameters gathered."""
        return functools.partial(self._host, functools.partial(self._call, graph))

    def reduce(self) -> None:
        """Average the gradients over all replicas. All ranks call it after the backward passes.

        Parameters that no replica used get none, as in `gradients.average`. Raises ParallelError
        with a version of torch that leaves them out.
        """
        used = [each for each in self._gathered.values() if each.requires_grad]
        if used:
            fill(used, self._world.dp_group)
        self._set_reducing(True)
        # FSDP2 reduces whatever has been added up at the end of a backward pass, even of this one.
        nothing = torch.zeros((), device=self._world.device, requires_grad=True)
        self._host(torch.clone, nothing).backward()
        self._set_reducing(False)
        if any(each.grad is not None for each in used):
            raise ParallelError(
                f"torch {torch.__version__} does not reduce gradients that were added up before: "
                "use torch 2.13, or shard_degree=1"
            )

    def release(self) -> None:
        """Free whatever is still gathered after forward passes without backward passes."""
        for unit in self._units:
            cast(FSDPModule, unit).reshard()

    def _set_reducing(self, is_on: bool) -> None:
        self._host.set_requires_gradient_sync(is_on)
        self._host.set_is_last_backward(is_on)
        self._host.set_reshard_after_backward(is_on or not self._keep_gathered)

    def _call(self, graph: fx.GraphModule, *arguments: Any) -> Any:
        for slot in self._slots[graph]:
            slot.fill()
        return tree_map_only(torch.Tensor, _without_base, graph(*arguments))

    def _note_gathered(self, unit: nn.Module, arguments: object) -> None:
        """Note the parameters of a unit as they are when gathered: the same ones in each step."""
        for parameter in unit.parameters():
            if not isinstance(parameter, DTensor):
                self._gathered[id(parameter)] = parameter


class _Host(nn.Module):  # type: ignore[misc] # torch types it as Any
    """A module with the contents of another one, under the same names, that calls functions."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.training = module.training
        for name, child in module._modules.items():
            self.add_module(name, child)
        for name, parameter in module._parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in module._buffers.items():
            is_saved = name not in module._non_persistent_buffers_set
            self.register_buffer(name, buffer, persistent=is_saved)

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, while the parameters that are in no block are gathered."""
        return function(*arguments)


@dataclass(frozen=True, kw_only=True)
class _Slot:
    """A place of a parameter in a stage's own code, and its place in the host."""

    module: nn.Module
    name: str
    source: nn.Module
    source_name: str

    def fill(self) -> None:
        """Put the parameter there that is now in the host: sharded, or gathered."""
        self.module._parameters[self.name] = self.source._parameters[self.source_name]


def _slots_outside(host: nn.Module, graph: fx.GraphModule) -> Iterator[_Slot]:
    """Yield the places of a stage's parameters in modules that the host does not have."""
    inside = set(host.modules())
    places = {
        id(parameter): (module, name)
        for module in inside
        for name, parameter in module._parameters.items()
    }
    for module in graph.modules():
        if module in inside:
            continue
        for name, parameter in module._parameters.items():
            if parameter is not None:
                source, source_name = places[id(parameter)]
                yield _Slot(module=module, name=name, source=source, source_name=source_name)


def _is_called_whole(block: nn.Module, graphs: Sequence[fx.GraphModule]) -> bool:
    """Return whether stages call a block, and never only a part of it."""
    inner = {*block.modules()} - {block}
    own = {id(each) for each in block.parameters()}
    called = [
        graph.get_submodule(str(node.target))
        for graph in graphs
        for node in graph.graph.find_nodes(op="call_module")
    ]
    read = [
        _get(graph, str(node.target))
        for graph in graphs
        for node in graph.graph.find_nodes(op="get_attr")
    ]
    is_opened = any(each in inner for each in called) or any(id(each) in own for each in read)
    return block in called and not is_opened


def _get(module: object, name: str) -> object:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _check_parameters(host: nn.Module, units: Sequence[nn.Module]) -> None:
    """Raise ParallelError for parameters that FSDP2 does not shard."""
    names = {id(parameter): name for name, parameter in host.named_parameters()}
    for parameter in host.parameters():
        if not parameter.ndim:
            raise ParallelError(
                f"{names[id(parameter)]} is a single number, which FSDP2 cannot shard: give it the "
                "shape [1], or use shard_degree=1"
            )
    in_blocks = {id(parameter) for unit in units for parameter in unit.parameters()}
    rest = [each for each in host.parameters() if id(each) not in in_blocks]
    for together in (*(list(unit.parameters()) for unit in units), rest):
        first: dict[torch.dtype, str] = {}
        for parameter in together:
            if parameter.requires_grad:
                first.setdefault(parameter.dtype, names[id(parameter)])
        if len(first) > 1:
            found = " and ".join(f"{name} is {dtype}" for dtype, name in first.items())
            raise ParallelError(
                f"{found}, but FSDP2 gathers both together and needs one dtype: convert the model "
                "to one, or use shard_degree=1"
            )


def _without_base(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a view: an in-place operation on one would skip FSDP2's hook of the backward pass."""
    return tensor if tensor._base is None else tensor.clone()
