"""What is in a checkpoint, by key: from a rank's state, and back into it.

model/NAME                 a parameter or buffer
optimizer/NAME/FIELD       what an optimizer keeps of a parameter; options/NAME: how it trains it
shared/NAME                what is the same on all ranks
loader/NAME/REPLICA        a replica's place in the data
random/RANK                the random states of a rank
batches                    that a Pipeline has seen
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.checkpoints.names import named
from launcher.parallel.checkpoints.optimizers import optimizer_contents
from launcher.parallel.checkpoints.random_states import random_states
from launcher.parallel.checkpoints.state import State
from launcher.parallel.pipeline import Pipeline
from launcher.parallel.world import World

MODEL, BATCHES = "model/", "batches"


def shared_key(name: str) -> str:
    return f"shared/{name}"


def loader_key(name: str, replica: int) -> str:
    return f"loader/{name}/{replica}"


def random_key(rank: int) -> str:
    return f"random/{rank}"


def contents(state: State, world: World) -> dict[str, Any]:
    """What this rank has. Where several have a key, theirs are the same, and one is written.

    Buffers are the first replica's: each has seen other batches.
    """
    parts = named(state.model)
    found = {
        MODEL + each.names[0]: detached(each.value)
        for each in parts
        if each.is_parameter or world.dp_rank == 0
    }
    name_of = namer((each.value, each.names[0]) for each in parts)
    for optimizer in state.optimizers:
        for key, value in optimizer_contents(optimizer, name_of):
            if key in found:
                raise ParallelError(f"two optimizers have the same parameter: {key}")
            found[key] = value
    if world.rank == 0:
        found |= {shared_key(name): each.state_dict() for name, each in state.shared.items()}
        if isinstance(state.model, Pipeline):
            found[BATCHES] = state.model.steps
    for name, loader in state.loaders.items():
        found[loader_key(name, world.dp_rank)] = loader.state_dict()
    return found | {random_key(world.rank): random_states(world.device)}


def tied(state: State) -> dict[str, str]:
    """The other names of tied parameters, each with the one that it is saved under."""
    return {other: each.names[0] for each in named(state.model) for other in each.names[1:]}


def detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def namer(named: Iterable[tuple[Any, str]]) -> Callable[[nn.Parameter], str]:
    """A function that gives the names of parameters."""
    names = {id(value): name for value, name in named}

    def name_of(parameter: nn.Parameter) -> str:
        if id(parameter) not in names:
            raise ParallelError(
                f"an optimizer has a parameter of shape {list(parameter.shape)} that is not the "
                "model's: make it from the parameters of the model that is saved, after that was "
                "moved or sharded"
            )
        return names[id(parameter)]

    return name_of
