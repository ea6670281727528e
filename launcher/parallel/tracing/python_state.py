"""The Python state that a model's code can change: attributes, containers, closures, generators."""

from __future__ import annotations

import functools
import random
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

#: Objects within objects that are followed from a module's attributes.
_DEPTH = 3
_CONTAINERS = (dict, OrderedDict, defaultdict, Counter, list, set, deque, tuple, frozenset)
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)


class PythonState:
    """The state of some modules and their hooks, as it is now, and how to restore it.

    It is compared by content: attributes, lists, dicts, sets, arrays and generators that are
    reachable from the modules; closures and plain globals of their forwards and hooks. Tensors are
    compared by identity only; `tensors` are those that were found.

    with_children: whether submodules are part of it.
    """

    def __init__(self, modules: Iterable[nn.Module], *, with_children: bool = True) -> None:
        self._with_children = with_children
        self._seen: set[int] = set()
        self._cells: list[_Cell] = []
        self.tensors: list[torch.Tensor] = []
        for module in modules:
            self._module(module)

    def change(self) -> str:
        """Return the name of an attribute, entry or variable that has changed, or ""."""
        return next((cell.name() for cell in self._cells if cell.is_changed()), "")

    def restore(self) -> None:
        """Put back what differs."""
        self.undoing()()

    def undoing(self) -> Callable[[], None]:
        """Return a function that puts back what differs at this moment, and nothing else."""
        changed = [cell for cell in self._cells if cell.is_changed()]

        def undo() -> None:
            for cell in changed:
                cell.write(cell.before)

        return undo

    def _module(self, module: nn.Module) -> None:
        if not self._is_new(module):
            return
        self._function(type(module).forward, 0)
        attributes = vars(module)
        self._add(attributes, dict, functools.partial(_refill_dict, attributes))
        for name, value in list(attributes.items()):
            if name != "_modules" or self._with_children:
                self._value(value, 0)

    def _value(self, value: object, depth: int) -> None:
        if isinstance(value, (*_ATOMS, type, types.ModuleType)) or depth > 4 * _DEPTH:
            return
        if isinstance(value, torch.Tensor):
            if self._is_new(value):
                self.tensors.append(value)
        elif isinstance(value, nn.Module):
            if self._with_children:
                self._module(value)
        elif isinstance(value, Collection) and type(value) in _CONTAINERS:
            self._container(value, depth)  # others may do more than hold what they are given
        elif isinstance(value, tuple):
            self._container(tuple(value), depth)
        elif not self._is_new(value):
            return
        elif isinstance(value, np.ndarray):
            self._add(value, np.copy, functools.partial(np.copyto, value))
        elif isinstance(value, _GENERATORS):
            self._cells.append(_generator(value))
        elif isinstance(value, types.FunctionType):
            self._function(value, depth)
        elif isinstance(value, types.MethodType):
            self._value(value.__self__, depth + 4)
            self._function(value.__func__, depth)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._value(part, depth + 1)
        elif isinstance(getattr(value, "__dict__", None), dict) and not _is_foreign(value):
            self._value(vars(value), depth + 4)

    def _container(self, value: Collection[object], depth: int) -> None:
        if not self._is_new(value):
            return
        entries: Iterable[object] = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict):
            self._add(value, dict, functools.partial(_refill_dict, value))
        elif isinstance(value, (list, deque)):
            self._add(value, list, functools.partial(_refill, value, value.extend))
        elif isinstance(value, set):
            self._add(value, set, functools.partial(_refill, value, value.update))
        for each in list(entries):
            self._value(each, depth + 1)

    def _function(self, function: object, depth: int) -> None:
        """Add the closure of a function, and the globals that are numbers or containers."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or _is_foreign(function):
            return
        for cell in function.__closure__ or ():
            if self._is_new(cell) and _is_filled(cell):
                self._cells.append(_closure(cell))
                self._value(cell.cell_contents, depth + 4)
        names = {name for name in function.__code__.co_names if name in function.__globals__}
        for name in sorted(names):
            value = function.__globals__[name]
            if isinstance(value, (bool, int, float)):
                self._cells.append(_variable(function.__globals__, name))
            elif type(value) in _CONTAINERS or isinstance(value, np.ndarray):
                self._value(value, 4 * _DEPTH)

    def _is_new(self, value: object) -> bool:
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        return True

    def _add(self, value: Any, copy: Callable[[Any], Any], write: Callable[[Any], object]) -> None:
        read = functools.partial(copy, value)
        self._cells.append(_Cell(before=read(), read=read, write=write))


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One container, variable or generator."""

    before: Any
    read: Callable[[], Any]
    write: Callable[[Any], object]

    def is_changed(self) -> bool:
        return not _is_same(self.before, self.read())

    def name(self) -> str:
        now = self.read()
        if not isinstance(now, dict):
            return "a variable" if isinstance(now, _ATOMS) else f"a {type(now).__name__}"
        keys = [*now, *(key for key in self.before if key not in now)]
        absent = object()
        return next(
            repr(key)
            for key in keys
            if not _is_same_item(self.before.get(key, absent), now.get(key, absent))
        )


def _is_same(one: object, other: object) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same_item(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same_item, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, set):
        return bool(one == other)
    return _is_same_item(one, other)


def _is_same_item(one: object, other: object) -> bool:
    """Return whether two entries are the same object, or equal numbers or texts."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and one != one:
        return other != other
    if isinstance(one, types.MethodType):  # each access of a method makes a new one
        return one == other
    if isinstance(one, (tuple, np.ndarray)):
        return _is_same(one, other)
    return isinstance(one, _ATOMS) and one == other


def _refill_dict(value: dict[object, object], before: dict[object, object]) -> None:
    value.clear()
    value.update(before)


def _refill(value: Any, extend: Callable[[Any], object], before: Any) -> None:
    value.clear()
    extend(before)


def _generator(value: Any) -> _Cell:
    if isinstance(value, torch.Generator):
        return _Cell(before=value.get_state(), read=value.get_state, write=value.set_state)
    if isinstance(value, random.Random):
        return _Cell(before=value.getstate(), read=value.getstate, write=value.setstate)
    bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator

    def read() -> str:
        return repr(bits.state)

    state = bits.state
    return _Cell(before=read(), read=read, write=lambda _: setattr(bits, "state", state))


def _closure(cell: types.CellType) -> _Cell:
    return _Cell(
        before=cell.cell_contents,
        read=lambda: cell.cell_contents,
        write=functools.partial(setattr, cell, "cell_contents"),
    )


def _variable(namespace: dict[str, object], name: str) -> _Cell:
    return _Cell(
        before=namespace[name],
        read=functools.partial(namespace.get, name),
        write=functools.partial(namespace.__setitem__, name),
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_foreign(value: object) -> bool:
    """Return whether torch or the standard library owns the state of an object or function."""
    owner = value if isinstance(value, types.FunctionType) else type(value)
    room = (getattr(owner, "__module__", None) or "").partition(".")[0]
    return room in {"torch", "threading", "logging", "queue", "concurrent", "multiprocessing"}


def hooks(module: nn.Module) -> Iterator[object]:
    """Yield the hooks of a module that run in training, or when it is saved or loaded."""
    for name in _HOOKS:
        yield from (getattr(module, name, None) or {}).values()


_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
