"""Models without weights: parameters on torch's meta device, buffers as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy


@contextmanager
def without_weights() -> Iterator[None]:
    """Create parameters without storage within the context, in whatever module they are registered.

    Buffers keep their values, since those that are not saved (rotary tables) come from nowhere
    else. Not for several threads at once.
    """
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, None if parameter is None else _on_meta(parameter))

    nn.Module.register_parameter = registered  # torch has no hook for it
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def _on_meta(parameter: nn.Parameter) -> nn.Parameter:
    """Return a parameter on the meta device; one that is there already stays the same, and tied."""
    if is_lazy(parameter) or parameter.is_meta:
        return parameter
    kind: Any = type(parameter)
    data = torch.empty_like(parameter.data, device="meta")
    made: nn.Parameter = kind(data, requires_grad=parameter.requires_grad)
    made.__dict__.update(parameter.__dict__)
    return made
