"""The nodes of a graph that is being recorded, and the tensors that they stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn

from launcher.parallel.tracing.python_state import PythonState
from launcher.parallel.tracing.recorded_operations import (
    CONSTANTS,
    Constant,
    Rebuild,
    flatten,
    leaf,
)
from launcher.parallel.tracing.writes import place

#: Types of arguments, beside constants, that a graph holds as they are.
_FIXED = (*CONSTANTS, torch.layout, torch.memory_format, range, type, type(...))


class Unknown(Exception):
    """A value that a graph cannot have as an argument."""


class Mark(NamedTuple):
    """The numbers of nodes and bindings at a moment."""

    nodes: int
    bindings: int


class Taken(NamedTuple):
    """The arguments of a call, with nodes in place of tensors."""

    args: tuple[object, ...]
    kwargs: dict[str, object]


class NodeTable:
    """A graph, and the node of each tensor.

    values: receives the value of each node. stack: returns the calls that are being recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        values: dict[fx.Node, Any],
        stack: Callable[[], tuple[tuple[str, int], ...]],
    ) -> None:
        self.graph = fx.Graph()
        #: Names of parameters and buffers, by id and by storage.
        self.names: dict[int, str] = {}
        for name, each in (*model.named_parameters(), *model.named_buffers()):
            self.names[place(each)] = self.names[id(each)] = name
        self._values = values
        self._stack = stack
        self._known = {id(each) for each in PythonState([model]).tensors}
        self._order: list[fx.Node] = []
        self._node_of: dict[int, fx.Node] = {}
        self._alive: list[torch.Tensor] = []  # so that no id is used twice
        self._journal: list[tuple[int, fx.Node | None]] = []
        self._uniform: set[int] = set()

    def add(self, node: fx.Node, value: object, call: int | None = None) -> None:
        """Make a node the source of a value and of the tensors in it. call: of a module."""
        self.keep(node, value, call)
        self.bind_parts(node, value)

    def bind_parts(self, node: fx.Node, value: object) -> None:
        """Make a node the source of the tensors in its value."""
        if isinstance(value, torch.Tensor):
            self.bind(value, node)
            return
        leaves, _ = flatten(value)
        for number, each in enumerate(leaves):
            if isinstance(each, torch.Tensor):
                part = self.graph.call_function(leaf, (node, number))
                self.keep(part, each)
                self.bind(each, part)

    def bind(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Make a node the source of a tensor."""
        self._alive.append(tensor)
        self._journal.append((id(tensor), self._node_of.get(id(tensor))))
        self._node_of[id(tensor)] = node

    def add_uniform(self, tensor: torch.Tensor) -> None:
        """Add a drawn number that no node may use."""
        self._alive.append(tensor)
        self._uniform.add(id(tensor))

    def is_uniform(self, value: object) -> bool:
        """Return whether a value is such a number."""
        return id(value) in self._uniform

    def mark(self) -> Mark:
        """Return the moment, for `forget_since`."""
        return Mark(len(self._order), len(self._journal))

    def forget_since(self, mark: Mark) -> None:
        """Erase all nodes since a moment."""
        for tensor, node in reversed(self._journal[mark.bindings :]):
            if node is None:
                self._node_of.pop(tensor, None)
            else:
                self._node_of[tensor] = node
        del self._journal[mark.bindings :]
        for node in reversed(self._order[mark.nodes :]):
            self._values.pop(node, None)
            self.graph.erase_node(node)
        del self._order[mark.nodes :]

    def taken(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Taken:
        """Return the arguments of a call with nodes in place of tensors. Raises Unknown."""
        named = {name: self.argument(each) for name, each in kwargs.items()}
        return Taken(tuple(map(self.argument, args)), named)

    def argument(self, value: Any, *, is_output: bool = False) -> object:
        """Return an argument with nodes in place of tensors. Raises Unknown."""
        if isinstance(value, torch.Tensor):
            return self._source(value)
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return slice(*(self.argument(each) for each in parts))
        if type(value) in (tuple, list):
            return type(value)(self.argument(each) for each in value)
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {key: self.argument(each) for key, each in value.items()}
        if isinstance(value, torch.Size):
            return tuple(value)
        if isinstance(value, np.generic):
            return value.item()
        return value if isinstance(value, _FIXED) else self._structure(value, is_output)

    def _structure(self, value: object, is_output: bool) -> fx.Node:
        """Return a node that makes a structure of a class of its own."""
        leaves, spec = flatten(value)
        is_data = isinstance(value, (tuple, list, dict)) or dataclasses.is_dataclass(value)
        if (len(leaves) == 1 and leaves[0] is value) or not (is_output or is_data):
            raise Unknown(f"a {type(value).__name__}")
        nodes = tuple(self.argument(each) for each in leaves)
        node = self.graph.call_function(Rebuild(spec), nodes)
        self.keep(node, value)
        return node

    def _source(self, tensor: torch.Tensor) -> fx.Node:
        node = self._node_of.get(id(tensor))
        if node is not None:
            return node
        if id(tensor) in self._uniform:
            raise Unknown("random numbers")
        name = self.names.get(id(tensor))
        if name is not None:
            node = self.graph.get_attr(name)
        elif id(tensor) in self._known:
            if not tensor.is_leaf:  # its gradient would be lost in stages without its parameters
                raise Unknown(
                    "a tensor that was computed from parameters before this call (compute it in "
                    "the forward)"
                )
            node = self.graph.call_function(Constant(tensor))
        else:
            raise Unknown(
                "a tensor that cannot be followed (made by code that is not torch's, or kept from "
                "another call)"
            )
        self.keep(node, tensor)
        if not isinstance(tensor, nn.Parameter):  # stages have copies of parameters, not of buffers
            self.bind(tensor, node)
        return node

    def keep(self, node: fx.Node, value: object, call: int | None = None) -> None:
        """Add a node with its value. call: of a module."""
        stack = self._stack()
        node.meta["calls"] = stack if call is None else (*stack, (str(node.target), call))
        self._order.append(node)
        self._values[node] = value
        if isinstance(value, torch.Tensor):
            node.meta["place"] = place(value)
