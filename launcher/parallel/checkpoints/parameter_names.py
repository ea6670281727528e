"""Names under which a model's state is saved: those of the model as its author wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from launcher.parallel.pipeline import Pipeline

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
