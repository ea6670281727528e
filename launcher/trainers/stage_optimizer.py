"""The optimizer of a rank's parameters, of which a pipeline stage may have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn


def make_optimizer(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer], parameters: Sequence[nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the optimizer that `make` creates for some parameters.

    Without any, as in a stage that only applies a function, torch's optimizers raise ValueError:
    then it is created for a placeholder, which it is relieved of.
    """
    if parameters:
        return make(list(parameters))
    optimizer = make([nn.Parameter(torch.empty(0))])
    for group in optimizer.param_groups:
        group["params"].clear()
    return optimizer
