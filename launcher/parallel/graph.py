"""Tracing a model into a graph of the calls of its modules.

Only the code between modules is traced (torch.fx). Modules stay as they are, so they handle
train and eval mode, buffers, random numbers and shapes themselves. A module becomes a single call
if its inside cannot be traced, draws random numbers, or behaves differently in eval mode.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError

#: Errors that torch.fx raises for code that depends on the values of tensors, and that such code
#: raises itself when it is given a placeholder for a tensor.
_UNTRACEABLE = (fx.proxy.TraceError, TypeError, AttributeError, ValueError, RuntimeError)


def trace(model: nn.Module) -> fx.Graph:
    """Return the calls of a model's forward, in order; their targets are the names of its modules.

    Raises ParallelError when the model's own forward depends on the values of tensors or on
    `training`, or draws random numbers.
    """
    kept: set[str] = set()
    while True:
        graphs = [_trace_in(mode, model, kept) for mode in (True, False)]
        changing = _first_difference(*graphs)
        if changing is None:
            return graphs[0]
        if not changing:
            raise ParallelError(
                f"the forward of {type(model).__name__} behaves differently in eval mode: move "
                "what depends on `training` into a module of its own (nn.Dropout for F.dropout)"
            )
        kept.add(changing)


def _trace_in(training: bool, model: nn.Module, whole: Collection[str]) -> fx.Graph:
    what = f"the forward of {type(model).__name__}"
    with in_mode(model, training=training), preserved_random_state() as has_drawn:
        try:
            graph = _Tracer(whole).trace(model)
        except _UNTRACEABLE as error:
            raise ParallelError(
                f"{what} cannot be traced from module to module: {error}; move code that depends "
                "on the values of tensors, or runs under torch.no_grad or torch.autocast, into a "
                "module of its own"
            ) from error
        if has_drawn():
            raise ParallelError(
                f"{what} draws random numbers, which would be the same in each step: move that "
                "code into a module of its own"
            )
    return graph


@contextlib.contextmanager
def preserved_random_state() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether random numbers were drawn; restore states at exit."""
    python, torch_state = random.getstate(), torch.get_rng_state()
    numpy_state: Any = np.random.get_state()

    def has_drawn() -> bool:
        now: Any = np.random.get_state()
        return (
            random.getstate() != python
            or not torch.equal(torch.get_rng_state(), torch_state)
            or not all(np.array_equal(*two) for two in zip(now, numpy_state, strict=True))
        )

    try:
        yield has_drawn
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)


@contextlib.contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Set train or eval mode within the context; restore each module's own mode afterwards."""
    before = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, was in before.items():
            module.training = was


def _first_difference(one: fx.Graph, other: fx.Graph) -> str | None:
    """Return the innermost module of the first difference ("" is the model), or None."""
    for pair in itertools.zip_longest(one.nodes, other.nodes):
        nodes = [node for node in pair if node is not None]
        if len({node.format_node() for node in nodes}) + len(pair) - len(nodes) > 1:
            return max(map(_calling_module, nodes), key=len)
    return None


def _calling_module(node: fx.Node) -> str:
    """Return the module whose code makes a call."""
    inside = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
    if node.op == "call_module" and inside[-1:] == [str(node.target)]:
        inside.pop()
    return inside[-1] if inside else ""


class _Tracer(fx.Tracer):  # type: ignore[misc] # torch.fx types it as Any
    """Traces into containers as far as possible. whole: modules that are not traced into."""

    def __init__(self, whole: Collection[str]) -> None:
        super().__init__()
        self._whole = whole
        self._outside = _mode()

    def create_node(self, *args: object, **kwargs: object) -> fx.Node:
        """Create a node, unless a context that a graph would lose surrounds it."""
        if _mode() != self._outside:
            raise fx.proxy.TraceError("a part of it runs under torch.no_grad or torch.autocast")
        return super().create_node(*args, **kwargs)

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        """Return whether a module is recorded as one call."""
        if name in self._whole or not any(True for _ in module.children()):
            return True
        if "forward" in vars(module):  # it was replaced, for example to recompute activations
            return True
        # torch's own layers (attention, LSTM) are leaves; its containers are not.
        is_torch_state = type(module).__module__.startswith("torch.nn")
        return is_torch_state and not isinstance(module, nn.Sequential)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Trace into a module, or record it as one call if that fails or draws random numbers."""
        before = next(iter(reversed(self.graph.nodes)), None)
        with contextlib.suppress(*_UNTRACEABLE), preserved_random_state() as has_drawn:
            called = super().call_module(m, forward, args, kwargs)
            if not has_drawn():
                return called
        self._forget_since(before)
        return self.create_proxy("call_module", self.path_of_module(m), args, kwargs)

    def _forget_since(self, last: fx.Node | None) -> None:
        for node in reversed(self.graph.nodes):
            if node is last:
                return
            self.graph.erase_node(node)


def _mode() -> tuple[object, ...]:
    """Return the state that torch.no_grad and torch.autocast change for operations within them."""
    devices = ("cpu", "cuda")
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        *(torch.is_autocast_enabled(each) and torch.get_autocast_dtype(each) for each in devices),
    )


def holds_tensors(value: object) -> bool:
    """Return whether there is a tensor anywhere in a value."""
    return any(isinstance(part, torch.Tensor) for part in tree_leaves(value))


def order_arguments(model: nn.Module, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return a model's arguments in the order of its forward's parameters."""
    return {
        name: arguments[name] for name in signature(model.forward).parameters if name in arguments
    }
