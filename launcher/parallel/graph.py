"""A model as a graph of the calls of its modules.

Modules stay what they are: only the code between them is traced (torch.fx), so that train and eval
mode, buffers, random numbers and shapes are the modules' own business. A module whose inside cannot
be traced, or is not worth it, is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError

#: What torch.fx raises for code that depends on the values of tensors, and what such code raises
#: when it is given a placeholder for a tensor.
_UNTRACEABLE = (fx.proxy.TraceError, TypeError, AttributeError, ValueError, RuntimeError)


def trace(model: nn.Module, whole: Callable[[str], bool] = lambda name: False) -> fx.Graph:
    """The calls of a model's forward, in order; their targets are the names of its modules.

    whole: whether the module of a name is to be one call. Raises ParallelError when the model's own
    forward depends on the values of tensors.
    """
    tracer = _Tracer(whole)
    try:
        return tracer.trace(model)
    except _UNTRACEABLE as error:
        raise ParallelError(
            f"the forward of {type(model).__name__} cannot be followed from module to module: "
            f"{error}; move what depends on the values of tensors into a module of its own"
        ) from error


class _Tracer(fx.Tracer):  # type: ignore[misc] # torch.fx says Any of it
    """Looks into containers as far as it can."""

    def __init__(self, whole: Callable[[str], bool]) -> None:
        super().__init__()
        self._whole = whole

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        if self._whole(name) or not any(True for _ in module.children()):
            return True
        # torch's own layers (attention, LSTM) are one thing; its containers are not.
        is_torchs = type(module).__module__.startswith("torch.nn")
        return is_torchs and not isinstance(module, nn.Sequential)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        before = next(iter(reversed(self.graph.nodes)), None)
        try:
            return super().call_module(m, forward, args, kwargs)
        except _UNTRACEABLE:
            self._forget_since(before)
            return self.create_proxy("call_module", self.path_of_module(m), args, kwargs)

    def _forget_since(self, last: fx.Node | None) -> None:
        for node in reversed(self.graph.nodes):
            if node is last:
                return
            self.graph.erase_node(node)


def holds_tensors(value: Any) -> bool:
    """Whether there is a tensor anywhere in a value."""
    return any(isinstance(part, torch.Tensor) for part in tree_leaves(value))
