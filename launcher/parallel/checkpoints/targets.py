"""Mapping of a checkpoint's contents to a rank's state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata
from torch.distributed.tensor import DTensor

from launcher.errors import ParallelError
from launcher.parallel.checkpoints.contents import (
    BATCHES,
    MODEL,
    NamedParameters,
    State,
    Stateful,
    detached,
    loader_key,
    module_of,
    named,
    namer,
    random_key,
    reseed,
    restore,
    shared_key,
)
from launcher.parallel.checkpoints.optimizer_states import OptimizerTargets
from launcher.parallel.context import ParallelContext
from launcher.parallel.pipeline import Pipeline


class Targets:
    """A rank's state, to be filled from a checkpoint.

    tied: the other names of tied parameters in the checkpoint, each with the name it is saved
        under.
    replicas: the number of replicas that saved resume points of loaders.
    """

    def __init__(
        self,
        state: State,
        world: ParallelContext,
        saved: Metadata,
        *,
        tied: Mapping[str, str],
        replicas: int,
    ) -> None:
        self._state = state
        self._world = world
        self._saved = saved.state_dict_metadata
        self._tied = tied
        # True if all names of this rank's parameters are known; a stage's bare module lacks some.
        self._is_whole = isinstance(state.model, Pipeline) or world.degrees.pipeline == 1
        self._replicas = replicas
        self._parts = [(each, self._saved_names(each)) for each in named(state.model)]
        name_of = namer((each.value, at[0] if at else each.names[0]) for each, at in self._parts)
        self._optimizers = [OptimizerTargets(each, name_of, saved) for each in state.optimizers]

    def _saved_names(self, part: NamedParameters) -> list[str]:
        """Return the names under which the checkpoint has a part; tied ones may have several."""
        names = [found for name in part.names for found in (name, self._tied.get(name, name))]
        return [name for name in dict.fromkeys(names) if MODEL + name in self._saved]

    @property
    def names(self) -> set[str]:
        """All names of this rank's part of the model, in the model or the checkpoint."""
        return {name for each, saved_names in self._parts for name in (*each.names, *saved_names)}

    @property
    def lacks_random_states(self) -> bool:
        """True if the checkpoint has no random states of this rank."""
        return random_key(self._world.rank) not in self._saved

    def problems(self, names: Collection[str]) -> Iterator[str]:
        """Yield the reasons why it cannot be loaded. names: all names in the whole model."""
        for part, saved_names in self._parts:
            yield from self._problems_of(part, saved_names)
        if self._world.rank == 0:
            known = {key[len(MODEL) :] for key in self._saved if key.startswith(MODEL)}
            for foreign in sorted(known.difference(names)):
                yield f"the checkpoint has {foreign}, but the model does not"
        for optimizer in self._optimizers:
            yield from optimizer.problems()
        for key in (*map(shared_key, self._state.shared), *self._loader_keys()):
            if key not in self._saved:
                yield f"the checkpoint has no {key}"

    def _problems_of(self, part: NamedParameters, saved_names: list[str]) -> Iterator[str]:
        name = part.names[0]
        if not saved_names:
            yield f"the model has {name}, but the checkpoint does not"
            return
        if self._is_whole and saved_names[0] not in part.names:
            yield (
                f"{name} is tied to {saved_names[0]} in the checkpoint, but is a separate "
                "parameter in the model"
            )
        saved = self._saved[MODEL + saved_names[0]]
        if isinstance(saved, BytesStorageMetadata) or not torch.is_tensor(part.value):
            return
        there = (saved.properties.dtype, list(saved.size))
        here = (part.value.dtype, list(part.value.shape))
        if there != here:
            yield "{} is {} {} in the model, but {} {} in the checkpoint".format(
                name, *here, *there
            )

    def allocate(self) -> dict[str, object]:
        """Return the values to load into, by key: the model's own tensors or new ones."""
        wanted = [BATCHES, random_key(self._world.rank), *map(shared_key, self._state.shared)]
        found: dict[str, Any] = dict.fromkeys(key for key in wanted if key in self._saved)
        found |= dict.fromkeys(self._loader_keys())
        for part, saved_names in self._parts:
            found[MODEL + saved_names[0]] = detached(part.value)
            found |= {MODEL + other: torch.empty_like(part.value) for other in saved_names[1:]}
        for optimizer in self._optimizers:
            found |= dict(optimizer.targets())
        return found

    def apply(self, loaded: Mapping[str, Any], *, step: int) -> None:
        """Load the filled values into the state."""
        for part, saved_names in self._parts:
            for other in saved_names[1:]:
                _check_equal(part, other, loaded[MODEL + other])
        parts = {key: loaded[MODEL + at[0]] for part, at in self._parts for key in part.keys}
        module_of(self._state.model).load_state_dict(parts)
        for optimizer in self._optimizers:
            optimizer.apply(loaded)
        if isinstance(self._state.model, Pipeline):
            self._state.model.steps = loaded.get(BATCHES, self._state.model.steps)
        for name, each in self._state.shared.items():
            each.load_state_dict(loaded[shared_key(name)])
        for name, loader in self._state.loaders.items():
            self._restore_loader(name, loader, loaded)
        if self.lacks_random_states:
            reseed(step=step, rank=self._world.rank)
        else:
            restore(loaded[random_key(self._world.rank)], self._world.device)

    def _loader_keys(self) -> list[str]:
        return [
            loader_key(name, replica)
            for name in self._state.loaders
            for replica in range(self._replicas)
        ]

    def _restore_loader(self, name: str, loader: Stateful, loaded: Mapping[str, object]) -> None:
        """Load a loader's resume point; with another number of replicas, give it those of all."""
        saved_names = [loaded[loader_key(name, replica)] for replica in range(self._replicas)]
        same = self._replicas == self._world.degrees.data
        loader.load_state_dict(saved_names[self._world.dp_rank] if same else saved_names)


def _check_equal(part: NamedParameters, other: str, value: torch.Tensor) -> None:
    mine = part.value
    if isinstance(mine, DTensor) and isinstance(value, DTensor):
        mine, value = mine.to_local(), value.to_local()
    if not torch.equal(mine, value):
        raise ParallelError(
            f"{part.names[0]} and {other} are tied in the model, but have different values in the "
            "checkpoint: it was saved from a model that does not tie them"
        )
