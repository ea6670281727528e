"""The state_dict of a rank's modules as a trainer writes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor


def whole_state(module: nn.Module, *, keep: bool) -> dict[str, Any]:
    """Return a module's state_dict on the CPU, with sharded tensors gathered; {} unless `keep`.

    All ranks that share the module call it. Extra state of modules is left as it is.
    """
    found: dict[str, Any] = {}
    for name, value in module.state_dict().items():
        each = value.full_tensor() if isinstance(value, DTensor) else value
        if keep:
            found[name] = each.cpu() if isinstance(each, torch.Tensor) else each
    return found
