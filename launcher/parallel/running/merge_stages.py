"""Merge the ranks' stages into the whole model, under its original names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.stages import Stage, container


def assign_unused(model: nn.Module, stages: Sequence[Stage]) -> None:
    """Complete the stages so that together they have exactly the state_dict of the model.

    Whatever no stage uses goes to the first one, so that it is saved. Raises ParallelError for what
    only code of the model itself saves, which no stage has.
    """
    whole = model.state_dict(keep_vars=True)
    held: set[int] = set()
    saved = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    saved |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    for stage in stages:
        for name, value in stage.module.state_dict(keep_vars=True).items():
            held.add(id(value))
            saved.add(name)
            if name not in whole:  # torch.fx makes buffers persistent that traced code reads
                _put(stage.module, name, value, persistent=False)
    for name, value in whole.items():
        if name not in saved:
            raise ParallelError(
                f"the state_dict of {type(model).__name__} has {name!r}, which no stage would "
                "save, since stages do not have the code that adds it (get_extra_state, "
                "state_dict): move that code into a module that stays whole"
            )
        if isinstance(value, torch.Tensor) and id(value) not in held:
            _put(stages[0].module, name, value)


def merge_stages(model: nn.Module, stages: Sequence[Stage]) -> nn.Module:
    """Return a module with all modules and parameters of several stages; it cannot be called.

    They are under the model's own names. A single stage is returned as it is.
    """
    if len(stages) == 1:
        return stages[0].module
    of_both_modes = [each.in_mode(mode).module for each in stages for mode in (True, False)]
    merged = container(model, of_both_modes, "Stages")
    whole = model.state_dict(keep_vars=True)
    for stage in stages:
        for name, value in (*stage.module.named_parameters(), *stage.module.named_buffers()):
            _put(merged, name, value, persistent=name in whole)
    return merged


def _put(module: nn.Module, name: str, value: object, *, persistent: bool = True) -> None:
    """Set a module's parameter or buffer by its dotted name; create modules that are missing."""
    *path, leaf = name.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, nn.Module())
        module = getattr(module, part)
    if isinstance(value, nn.Parameter):
        module.register_parameter(leaf, value)
    else:
        module.register_buffer(leaf, value, persistent=persistent)
