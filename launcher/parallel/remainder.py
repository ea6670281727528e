"""What of a model is in no stage, because no stage uses it: the first one has it, to be saved."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from launcher.parallel.stages import Stage


def settle(model: nn.Module, stages: Sequence[Stage]) -> None:
    """Let the stages together have the state_dict of the model: all of it, and nothing else."""
    whole = model.state_dict(keep_vars=True)
    held = set()
    for stage in stages:
        for name, value in stage.module.state_dict(keep_vars=True).items():
            held.add(id(value))
            if name not in whole:  # torch.fx makes the buffers that code reads persistent
                owner, leaf = _owner(stage.module, name)
                owner.register_buffer(leaf, value, persistent=False)
    for name, value in whole.items():
        if isinstance(value, torch.Tensor) and id(value) not in held:
            owner, leaf = _owner(stages[0].module, name)
            if isinstance(value, nn.Parameter):
                owner.register_parameter(leaf, value)
            else:
                owner.register_buffer(leaf, value)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that has a name's last part, made where there is none."""
    *path, leaf = name.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, nn.Module())
        module = getattr(module, part)
    return module, leaf
