"""Recomputation of activations in the backward pass instead of keeping them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint

from launcher.errors import ParallelError


def recompute(model: nn.Module, names: Iterable[str]) -> None:
    """Recompute the activations within some modules; only the inputs of each are kept.

    Names, parameters and results do not change. A pipeline treats each of them as one module: it is
    not cut inside, and all its random numbers come from one seed. Raises ParallelError.

    names: names of modules; that of a ModuleList stands for each of its entries.
    """
    found = [each for name in names for each in _modules(model, name)]
    for name, module in found:
        _check_statistics(name, module)
    for _, module in found:
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)


def _modules(model: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    try:
        module = model.get_submodule(name)
    except AttributeError:
        known = ", ".join(each for each, _ in model.named_children())
        raise ParallelError(
            f"{name!r} is to be recomputed, but the model has no such module: it has {known}"
        ) from None
    if isinstance(module, nn.ModuleList):
        for child in module.named_children():
            yield f"{name}.{child[0]}", child[1]
    else:
        yield name, module


def _check_statistics(name: str, module: nn.Module) -> None:
    for inner, each in module.named_modules(prefix=name):
        if isinstance(each, _NormBase) and each.track_running_stats:
            raise ParallelError(
                f"{name} cannot be recomputed, because {inner} would count each batch twice in its "
                "running statistics: leave it out, or set track_running_stats=False"
            )
