"""The Python state that a model's code can change: attributes, containers, closures, generators."""

from __future__ import annotations

import functools
import itertools
import sys
import sysconfig
import types
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from launcher.parallel.tracing import state_cells
from launcher.parallel.tracing.state_cells import ATOMS, Cell, Place

#: Objects that are followed, the nearest to the modules first.
_MOST = 10_000


class Unfollowed:
    """A value that is no part of a model's state, whatever it holds."""


#: Values that hold nothing, or that are added where they are named.
_FIXED = (*ATOMS, type, types.ModuleType, Unfollowed)
#: Modules whose objects keep no state of a model; those that hold what a user puts in are not.
_FOREIGN = {"torch", "numpy", *sys.stdlib_module_names} - {"types", "collections", "argparse"}


class PythonState:
    """The state of some modules and their hooks, as it is now, and how to restore it.

    It is compared by content: attributes, lists, dicts, sets, arrays and generators that are
    reachable from the modules; attributes of their classes; closures, defaults and globals of their
    forwards and hooks, and of the functions and methods that these name. Tensors are compared by
    identity only; `tensors` are those that were found.

    with_children: whether submodules are part of it. idle: modules whose forwards do not run.
    others: other objects and functions that are part of it.
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        *,
        with_children: bool = True,
        idle: Collection[nn.Module] = (),
        others: Iterable[object] = (),
    ) -> None:
        self._with_children = with_children
        self._idle = idle
        #: The attributes and variables that the code names.
        self.names: set[str] = set()
        self._via: str = ""
        self._seen: set[object] = set()
        #: The attributes that lead to an object, by its id, beside the first one.
        self._other_ways: dict[int, set[str]] = defaultdict(set)
        self._cells: list[Cell] = []
        #: Of each cell, the id of its object and the attribute that led to it.
        self._first_ways: list[tuple[int, str]] = []
        self._tensor_ways: list[tuple[torch.Tensor, str]] = []
        self._places: dict[int, list[Place]] = defaultdict(list)
        self.tensors: list[torch.Tensor] = []
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        for module in modules:
            self._module(module)
        for other in others:
            self._later(other)
        while self._waiting and len(self._seen) < _MOST:
            self._via, work = self._waiting.popleft()
            work()

    def change(self) -> str:
        """Return the name of an attribute, entry or variable that has changed, or ""."""
        return next((cell.name() for cell in self._cells if cell.is_changed()), "")

    def read_changes(self) -> dict[int, str]:
        """Return the names of what has changed among what the code reads, by number.

        It reads attributes that it names, also within what else such an attribute holds.
        """
        found = (
            cell.read_change(self.names, self._ways(*way))
            for cell, way in zip(self._cells, self._first_ways, strict=True)
        )
        return {number: name for number, name in enumerate(found) if name}

    def read_tensors(self) -> list[torch.Tensor]:
        """Return the tensors that the code reads."""
        ways = [(each, self._ways(id(each), via)) for each, via in self._tensor_ways]
        return [each for each, via in ways if not via or not self.names.isdisjoint(via)]

    def _ways(self, value: int, via: str) -> set[str]:
        """Return the attributes that lead to an object, by its id; none if code names it."""
        every = {via, *self._other_ways.get(value, ())}
        return set() if "" in every else every

    def restore(self) -> None:
        """Put back what differs. Raises ParallelError if something cannot be put back."""
        self.undoing()()

    def undoing(self) -> Callable[[], None]:
        """Return a function that puts back what differs at this moment, and nothing else."""
        changed = [cell for cell in self._cells if cell.is_changed()]
        changed.sort(key=lambda cell: cell.order)

        def undo() -> None:
            for cell in changed:
                cell.write(cell.before)

        return undo

    # Objects --------------------------------------------------------------------------------

    def _module(self, module: nn.Module) -> None:
        if self._is_new(module):
            self._class(type(module))
            if module not in self._idle:
                self._methods(type(module), "forward")
            self._attributes(module, without=() if self._with_children else ("_modules",))

    def _later(
        self, value: object, holder: object = None, key: object = None, via: str | None = None
    ) -> None:
        """Add a value once those that are nearer to the modules are added.

        via: the attribute that holds it; by default the one that has led here.
        """
        self._via, before = self._via if via is None else via, self._via
        kind = type(value)
        if kind in state_cells.CONTAINERS:  # most are, and empty
            self._container(value, kind)
        elif not isinstance(value, _FIXED):
            self._wait(functools.partial(self._value, value, holder, key))
        self._via = before

    def _wait(self, work: Callable[[], None]) -> None:
        self._waiting.append((self._via, work))

    def _add(self, value: object, cell: Cell | None, *, is_named: bool = False) -> None:
        """Add the cell of an object."""
        if cell is not None:
            self._cells.append(cell._replace(is_named=is_named) if is_named else cell)
            self._first_ways.append((id(value), self._via))

    def _container(self, value: Any, kind: Any) -> None:
        if self._is_new(value):
            self._add(value, state_cells.container(value, kind))
            if value:
                self._wait(functools.partial(self._entries, value, kind))

    def _entries(self, value: object, kind: Any) -> None:
        for key, entry in state_cells.entries(value, kind):
            self._later(entry, value, key)

    def _value(self, value: Any, holder: object, key: object) -> None:
        if isinstance(value, itertools.count):
            self._count(value, holder, key)
        elif isinstance(value, nn.Module):
            if self._with_children:
                self._module(value)
        elif not self._is_new(value):
            return
        elif isinstance(value, torch.Tensor):
            self.tensors.append(value)
            self._tensor_ways.append((value, self._via))
        elif cell := state_cells.numbers(value):
            self._add(value, cell)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._later(value.__self__)
            self._function(value.__func__, type(value.__self__))
        elif isinstance(value, types.GeneratorType):
            self._add(value, state_cells.generator(value))
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self._later(part)
        else:
            self._object(value)

    def _object(self, value: object) -> None:
        if _is_foreign(type(value)):
            return
        if kind := state_cells.container_kind(value):
            self._add(value, state_cells.container(value, kind))
            self._entries(value, kind)
        self._class(type(value))
        self._methods(type(value), "__call__")
        self._attributes(value)

    def _attributes(self, value: object, without: tuple[str, ...] = ()) -> None:
        kind: type = type(value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            if self._is_new(attributes):
                self._add(attributes, state_cells.container(attributes, dict), is_named=True)
            for name, held in list(attributes.items()):
                if name not in without:
                    self._later(held, attributes, name, name)
        if found := state_cells.slots(_own_classes(kind)):
            self._add(value, state_cells.of_slots(value, found), is_named=True)
            for name, held in state_cells.filled_slots(value, found).items():
                self._later(held, value, found[name], name)

    def _count(self, value: itertools.count[int], holder: object, key: object) -> None:
        places = self._places[id(value)]
        places.append(Place(holder=holder, key=key))
        if self._is_new(value):
            self._add(value, state_cells.count(value, places))

    def _class(self, kind: type) -> None:
        """Add the attributes of a class and of the classes that it is made from."""
        for each in _own_classes(kind):
            if self._is_new(each):
                self._add(each, state_cells.of_class(each), is_named=True)
                for name, held in state_cells.class_data(each).items():
                    self._later(held, each, name, name)

    # Code -----------------------------------------------------------------------------------

    def _methods(self, kind: type, name: str) -> None:
        """Add the methods of a name, also those that another one calls by super()."""
        for each in _own_classes(kind):
            if name in vars(each):
                function = _unwrapped(vars(each)[name])
                self._wait(functools.partial(self._function, function, kind))

    def _function(self, function: object, kind: type | None = None) -> None:
        """Add the closure, defaults and attributes of a function, and what it names.

        kind: the class of the object whose method it is.
        """
        if not isinstance(function, types.FunctionType) or _is_foreign(function):
            return
        if not self._is_new(function, ("method of", kind)):
            return
        if self._is_new(function, "attributes"):
            self.names |= _mentioned(function.__code__)
            self._later(function.__dict__)
            for default in (function.__defaults__, function.__kwdefaults__):
                self._later(default)
        for cell in function.__closure__ or ():
            if _is_filled(cell):
                self._closure(cell, kind)
        for name in _names(function.__code__):
            if name in function.__globals__:
                self._global(function, function.__globals__, name)
            if kind is not None:
                self._methods(kind, name)

    def _closure(self, cell: types.CellType, kind: type | None) -> None:
        if isinstance(cell.cell_contents, types.FunctionType):  # a method within its decorator
            self._wait(functools.partial(self._function, cell.cell_contents, kind))
        if self._is_new(cell):
            self._via = ""  # the code names what it closes over
            self._add(cell, state_cells.closure(cell))
            self._later(cell.cell_contents, cell)

    def _global(
        self, function: types.FunctionType, namespace: dict[str, object], name: str
    ) -> None:
        """Add what a function names: a variable, another function, a class, or a module's parts."""
        if not self._is_new(namespace, name):
            return
        value = namespace[name]
        if isinstance(value, types.FunctionType):
            is_near = value.__module__ == function.__module__
            if is_near or not _is_installed(value.__code__.co_filename):
                self._later(value)
        elif isinstance(value, type):
            if value.__module__ == function.__module__:
                self._class(value)
        elif isinstance(value, types.ModuleType):
            if not _is_installed(getattr(value, "__file__", None)):
                for part in _names(function.__code__) & vars(value).keys():
                    self._global(function, vars(value), part)
        else:
            self._via = ""
            self._add(namespace, state_cells.variable(namespace, name))
            self._later(value, namespace, name)

    def _is_new(self, value: object, part: object = None) -> bool:
        key = id(value) if part is None else (id(value), part)
        if key in self._seen:
            if part is None:
                self._other_ways[id(value)].add(self._via)
            return False
        self._seen.add(key)
        return True


def _unwrapped(method: Any) -> object:
    """Return the function of a static or class method, or of a property."""
    inner = getattr(method, "__func__", None) or getattr(method, "fget", None)
    return inner or getattr(method, "func", None) or method


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """Return the globals and attributes that code names, and the code within it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(code.co_names).union(*map(_names, inner))


@functools.lru_cache(maxsize=4096)
def _mentioned(code: types.CodeType) -> frozenset[str]:
    """Return the names in code, those in its texts too: it may get attributes by them."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    fixed = [each for each in code.co_consts if isinstance(each, (tuple, frozenset))]
    texts = [each for each in itertools.chain(code.co_consts, *fixed) if isinstance(each, str)]
    return frozenset(code.co_names).union(texts, *map(_mentioned, inner))


@functools.lru_cache(maxsize=1024)
def _own_classes(kind: type) -> tuple[type, ...]:
    """Return a class and its bases, but those of torch and the standard library."""
    return tuple(each for each in kind.__mro__ if not _is_foreign(each))


@functools.lru_cache(maxsize=1024)
def _is_installed(path: str | None) -> bool:
    """Return whether a file is of an installed package or the standard library."""
    if path is None or path.startswith("<"):
        return path is None
    parents = Path(path).parents
    packages = {"site-packages", "dist-packages"}
    return Path(sysconfig.get_path("stdlib")) in parents or any(
        each.name in packages for each in parents
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_foreign(owner: type | types.FunctionType) -> bool:
    """Return whether torch or the standard library owns the state of an object or function."""
    return (getattr(owner, "__module__", None) or "").partition(".")[0] in _FOREIGN


def hooks(module: nn.Module) -> Iterator[object]:
    """Yield the hooks of a module that run in training, or when it is saved or loaded.

    A method of the module that renames old entries before they are loaded (Hugging Face's Mamba) is
    none: stages have the new names.
    """
    for name in _HOOKS:
        for hook in (getattr(module, name, None) or {}).values():
            method = getattr(hook, "hook", None)
            if name != _BEFORE_LOADING or getattr(method, "__self__", None) is not module:
                yield hook


_BEFORE_LOADING = "_load_state_dict_pre_hooks"
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    _BEFORE_LOADING,
    "_load_state_dict_post_hooks",
)
