"""The state of a rank that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import nn
from torch.optim import Optimizer

from launcher.parallel.pipeline import Pipeline


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
