"""Contents of a checkpoint, by key: from a rank's state and back into it.

model/NAME                 a parameter or buffer
optimizer/NAME/FIELD       an optimizer's state of a parameter
options/NAME               the optimizer's options for a parameter
shared/NAME                state that is the same on all ranks
loader/NAME/REPLICA        a replica's resume point in the data
random/RANK                the random states of a rank
batches                    the number of batches that a Pipeline has run

A NAME is that of the model as its author wrote it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from launcher.errors import ParallelError
from launcher.parallel.checkpoints.optimizer_states import optimizer_contents
from launcher.parallel.context import ParallelContext
from launcher.parallel.pipeline import Pipeline
from launcher.parallel.randomness import seed_from

MODEL, BATCHES = "model/", "batches"


class Stateful(Protocol):
    """An object that saves and restores itself: a scheduler, a GradScaler, a loader."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: Any) -> Any:
        """Restore a state."""
        ...


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that is saved of a rank and loaded into it.

    model: this rank's Pipeline, or a module: bare, replicated by DDP, or sharded by FSDP2. Combine
        several modules in one nn.ModuleDict.
    optimizers: of the model's parameters.
    shared: by name, state that is the same on all ranks: a scheduler, a GradScaler, an epoch
        counter.
    loaders: by name, objects with a resume point in the data, that of the rank's replica.

    The random states of Python, numpy, torch and the rank's GPU are always saved.

    >>> State(model=pipeline, optimizers=[optimizer],
    ...       shared={"scheduler": scheduler, "scaler": scaler},
    ...       loaders={"train": loader})                          # doctest: +SKIP
    """

    model: nn.Module | Pipeline
    optimizers: Sequence[Optimizer] = ()
    shared: Mapping[str, Stateful] = field(default_factory=dict)
    loaders: Mapping[str, Stateful] = field(default_factory=dict)


def shared_key(name: str) -> str:
    """Return the key of state that is the same on all ranks."""
    return f"shared/{name}"


def loader_key(name: str, replica: int) -> str:
    """Return the key of a replica's resume point."""
    return f"loader/{name}/{replica}"


def random_key(rank: int) -> str:
    """Return the key of a rank's random states."""
    return f"random/{rank}"


def contents(state: State, world: ParallelContext) -> dict[str, object]:
    """Return what this rank saves, by key.

    Ranks with the same key have equal values, of which one is written. Buffers are saved by the
    first replica only, since each replica has seen other batches.
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
                raise ParallelError(f"two optimizers share a parameter: {key}")
            found[key] = value
    if world.rank == 0:
        found |= {shared_key(name): each.state_dict() for name, each in state.shared.items()}
        if isinstance(state.model, Pipeline):
            found[BATCHES] = state.model.steps
    for name, loader in state.loaders.items():
        found[loader_key(name, world.dp_rank)] = loader.state_dict()
    return found | {random_key(world.rank): random_states(world.device)}


def tied(state: State) -> dict[str, str]:
    """Map the other names of tied parameters to the name that each is saved under."""
    return {other: each.names[0] for each in named(state.model) for other in each.names[1:]}


def detached(value: object) -> Any:
    """Return a tensor detached from the graph; return any other value as it is."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def namer(named: Iterable[tuple[object, str]]) -> Callable[[nn.Parameter], str]:
    """Return a function that returns the name of a parameter."""
    names = {id(value): name for value, name in named}

    def name_of(parameter: nn.Parameter) -> str:
        if id(parameter) not in names:
            raise ParallelError(
                f"an optimizer has a parameter of shape {list(parameter.shape)} that is not in the "
                "saved model: create it from the model's parameters after the model was moved or "
                "sharded"
            )
        return names[id(parameter)]

    return name_of


def random_states(device: torch.device) -> dict[str, object]:
    """Return the states of Python, numpy and torch in this process, and of its GPU."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore(states: Mapping[str, Any], device: torch.device) -> None:
    """Restore the states that `random_states` returned."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)


def reseed(*, step: int, rank: int) -> None:
    """Seed a rank that has no saved random states."""
    seed_from("step", step, "rank", rank)


#: Parts that torch inserts into names when it compiles a module or recomputes its activations.
_INSERTED = ("_orig_mod.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, kw_only=True)
class NamedParameters:
    """A part of a model's state. names: all its names; it is saved under the first.

    keys: those in the module's own state_dict. value: the parameter or buffer itself, or a module's
    extra state.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    value: Any

    @property
    def is_parameter(self) -> bool:
        """True if the value is a parameter."""
        return isinstance(self.value, nn.Parameter)


def named(model: nn.Module | Pipeline) -> list[NamedParameters]:
    """Return all entries of the state_dict of a model or a stage, tied parameters once."""
    module = module_of(model)
    keys: dict[object, list[str]] = {}
    found = module.state_dict(keep_vars=True)
    for key, value in found.items():
        keys.setdefault(id(value) if torch.is_tensor(value) else key, []).append(key)
    tied = model.tied if isinstance(model, Pipeline) else {}
    elsewhere = {own_name(module, name): own_name(module, tied[name]) for name in tied}
    return [
        NamedParameters(
            names=tuple(_with_others([own_name(module, key) for key in same], elsewhere)),
            keys=tuple(same),
            value=found[same[0]],
        )
        for same in keys.values()
    ]


def module_of(model: nn.Module | Pipeline) -> nn.Module:
    """Return the module of a model; for a Pipeline, this rank's part."""
    return model.module if isinstance(model, Pipeline) else model


def _with_others(names: list[str], tied: Mapping[str, str]) -> Iterator[str]:
    """Yield the names, and those of the same parameter in the whole model, the first one first."""
    first = tied.get(names[0], names[0])
    yield first
    others = (name for name in tied if tied[name] == first)
    yield from dict.fromkeys(name for name in (*names, *others) if name != first)


def own_name(module: nn.Module, key: str) -> str:
    """Return the name, in the model as its author wrote it, of a key of a module's state_dict."""
    for prefix in _inside_ddp(module):
        if key.startswith(f"{prefix}module."):
            key = prefix + key[len(prefix) + len("module.") :]
    for inserted in _INSERTED:
        key = key.replace(inserted, "")
    return key


def _inside_ddp(module: nn.Module) -> list[str]:
    """Return the name prefixes after which DDP inserts `module.`, innermost first."""
    found = [
        f"{path}." if path else ""
        for path, part in module.named_modules()
        if isinstance(part, DistributedDataParallel)
    ]
    return sorted(found, key=len, reverse=True)
