"""Pieces of Python state: how each is read, compared and put back."""

from __future__ import annotations

import array
import ast
import contextlib
import functools
import itertools
import random
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from launcher.errors import ParallelError

ATOMS = (type(None), bool, int, float, complex, str, bytes)
#: Containers by their own methods, since those of a subclass may do more than hold what they get.
CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, deque, set, tuple, frozenset)
_ABSENT = object()


class Cell(NamedTuple):
    """A container, variable, generator or the attributes of an object or class.

    before: what it was. read: returns what it is, without a copy where that needs none. order: of
    writing; those with a lower one are put back first. is_named: whether code reads its entries by
    their names.
    """

    before: Any
    read: Callable[[], Any]
    write: Callable[[Any], object]
    order: int = 0
    is_named: bool = False

    def is_changed(self) -> bool:
        """Return whether it differs from what it was."""
        return not _is_same(self.before, self.read())

    def name(self) -> str:
        """Return the changed key or attribute, or the kind of what has changed."""
        now = self.read()
        if not isinstance(now, dict):
            return "a variable" if isinstance(now, ATOMS) else f"a {type(now).__name__}"
        return next(map(repr, self.changed_keys()))

    def changed_keys(self) -> list[Any]:
        """Return the changed keys or attributes."""
        now = self.read()
        return [
            key
            for key in [*now, *(key for key in self.before if key not in now)]
            if not _is_same_item(self.before.get(key, _ABSENT), now.get(key, _ABSENT))
        ]

    def read_change(self, names: Collection[str], via: Collection[str]) -> str:
        """Return the name of what has changed among what code that names `names` reads, or "".

        via: the attributes that lead here; none if the code names it.
        """
        if not self.is_changed():
            return ""
        if self.is_named:
            return next((repr(key) for key in self.changed_keys() if key in names), "")
        if not via:
            return self.name()
        return next((repr(name) for name in via if name in names), "")


@dataclass(frozen=True, kw_only=True)
class Place:
    """The entry of a container, class, namespace or closure that holds an object.

    key: of a slot, its descriptor.
    """

    holder: Any
    key: Any = None

    def put(self, value: object) -> None:
        """Hold another object. Raises ParallelError for an entry that is fixed."""
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        elif isinstance(self.holder, type):
            type.__setattr__(self.holder, self.key, value)
        elif isinstance(self.key, types.MemberDescriptorType):
            self.key.__set__(self.holder, value)
        elif isinstance(self.holder, (dict, list, deque)):
            self.holder[self.key] = value
        else:
            raise _lost("an itertools.count in a tuple, set or partial", "hold it in an attribute")


def _lost(what: str, mend: str) -> ParallelError:
    return ParallelError(
        f"a module advances {what}, which cannot be put back after the model was traced: {mend}"
    )


# Containers ---------------------------------------------------------------------------------


def container_kind(value: object) -> Any:
    """Return the built-in container that a value is, or None."""
    return next((kind for kind in CONTAINERS if isinstance(value, kind)), None)


def entries(value: Any, kind: Any) -> list[tuple[object, object]]:
    """Return the keys or numbers and the values of a container."""
    return list(kind.items(value) if _is_dict(kind) else enumerate(kind.__iter__(value)))


def container(value: Any, kind: Any) -> Cell | None:
    """Return the cell of a container, unless it cannot change."""
    if kind in (tuple, frozenset):
        return None
    write = functools.partial(_refill, value, kind)
    if type(value) is kind:
        return Cell(value.copy(), lambda: value, write)
    return _cell(lambda: kind(kind.items(value) if _is_dict(kind) else kind.__iter__(value)), write)


def _is_dict(kind: Any) -> bool:
    return issubclass(kind, dict)


def numbers(value: Any) -> Cell | None:
    """Return the cell of an array, bytearray or generator of random numbers, or None."""
    if isinstance(value, np.ndarray):
        return _cell(functools.partial(np.copy, value), functools.partial(np.copyto, value))
    if isinstance(value, (bytearray, array.array)):
        everything = slice(None)
        return _cell(lambda: value[:], functools.partial(value.__setitem__, everything))
    if isinstance(value, torch.Generator):
        return _cell(value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return _cell(value.getstate, value.setstate)
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return _numpy_generator(value)
    return None


def _numpy_generator(value: Any) -> Cell:
    bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
    state = bits.state
    return _cell(lambda: repr(bits.state), lambda _: setattr(bits, "state", state))


def _refill(value: Any, kind: Any, before: Any) -> None:
    kind.clear(value)
    if _is_dict(kind):
        for key, entry in before.items():
            kind.__setitem__(value, key, entry)
    elif kind is set:
        set.update(value, before)
    else:
        kind.extend(value, before)


# Attributes and variables -------------------------------------------------------------------


def slots(classes: Iterable[type]) -> dict[str, types.MemberDescriptorType]:
    """Return the descriptors of the __slots__ of an object's classes, by name."""
    found: dict[str, types.MemberDescriptorType] = {}
    for kind in classes:
        if "__slots__" in vars(kind):
            for name, descriptor in vars(kind).items():
                if isinstance(descriptor, types.MemberDescriptorType):
                    found.setdefault(name, descriptor)
    return found


def of_slots(value: object, descriptors: Mapping[str, types.MemberDescriptorType]) -> Cell:
    """Return the cell of the attributes in __slots__."""

    def write(before: Mapping[str, object]) -> None:
        for name in filled_slots(value, descriptors).keys() - before.keys():
            descriptors[name].__delete__(value)
        for name, held in before.items():
            descriptors[name].__set__(value, held)

    return _cell(functools.partial(filled_slots, value, descriptors), write)


def filled_slots(
    value: object, descriptors: Mapping[str, types.MemberDescriptorType]
) -> dict[str, object]:
    """Return the attributes in __slots__ that have a value."""
    found = {}
    for name, descriptor in descriptors.items():
        with contextlib.suppress(AttributeError):
            found[name] = descriptor.__get__(value)
    return found


def of_class(kind: type) -> Cell:
    """Return the cell of a class's attributes, without methods and other descriptors."""

    def write(before: Mapping[str, object]) -> None:
        for name in class_data(kind).keys() - before.keys():
            type.__delattr__(kind, name)
        for name, held in before.items():
            if vars(kind).get(name, _ABSENT) is not held:
                type.__setattr__(kind, name, held)

    return _cell(functools.partial(class_data, kind), write)


def class_data(kind: type) -> dict[str, object]:
    """Return a class's own attributes, without methods and other descriptors."""
    return {
        name: held
        for name, held in vars(kind).items()
        if not (name.startswith("__") or isinstance(held, type) or hasattr(type(held), "__get__"))
    }


def closure(cell: types.CellType) -> Cell:
    """Return the cell of a variable of a closure."""
    return _cell(lambda: cell.cell_contents, functools.partial(setattr, cell, "cell_contents"))


def variable(namespace: dict[str, object], name: str) -> Cell:
    """Return the cell of a global variable."""

    def read() -> dict[str, object]:
        return {name: namespace.get(name)}

    return _cell(read, lambda before: namespace.__setitem__(name, before[name]))


# Iterators ----------------------------------------------------------------------------------


def count(value: itertools.count[int], places: Collection[Place]) -> Cell:
    """Return the cell of an itertools.count, which is put back by an equal one in its places."""

    def write(before: Mapping[str, str]) -> None:
        start_and_step = before["its count"].removeprefix("count")
        made = itertools.count(*ast.literal_eval(f"{start_and_step[:-1]},)"))
        for place in places:
            place.put(made)

    def read() -> dict[str, str]:
        return {"its count": repr(value)}

    return Cell(before=read(), read=read, write=write, order=1)  # after its places


def generator(value: types.GeneratorType[object, object, object]) -> Cell:
    """Return the cell of a generator, which cannot be put back."""

    def read() -> dict[str, object]:
        frame = value.gi_frame
        return (
            {"its end": True}
            if frame is None
            else {"its position": frame.f_lasti, **frame.f_locals}
        )

    def write(before: object) -> None:
        raise _lost(
            f"the generator {value.__qualname__}",
            "hold its position in an attribute, or use itertools.count",
        )

    return Cell(before=read(), read=read, write=write, order=2)  # the others are put back


# Comparison ---------------------------------------------------------------------------------


def _cell(read: Callable[[], Any], write: Callable[[Any], object]) -> Cell:
    return Cell(before=read(), read=read, write=write)


def _is_same(one: object, other: object) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            (now := other.get(key, _ABSENT)) is entry or _is_same_item(entry, now)
            for key, entry in one.items()
        )
    if isinstance(one, (list, tuple, deque)) and isinstance(other, (list, tuple, deque)):
        return len(one) == len(other) and all(map(_is_same_item, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, (set, bytearray, array.array)):
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
    return isinstance(one, ATOMS) and one == other
