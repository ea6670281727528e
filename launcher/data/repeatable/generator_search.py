"""Search for the random number generators that an object or a module holds."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState

from launcher.data.batches import is_own, running_script

#: Objects that are searched: of a dataset, and of a variable of a module.
MOST_OF_DATASET = 100_000
_MOST_OF_VARIABLE = 1000
#: A container of more items is searched last, as the paths of all samples are.
_LONG = 1000
_CONTAINERS = frozenset((list, tuple, dict, set, frozenset))
#: What leads to no generator.
_ATOMS = frozenset((int, float, bool, complex, str, bytes, type(None)))
#: The generators of the functions of `random` and `numpy.random`.
_GLOBAL: tuple[Any, ...] = (
    random._inst,
    np.random.get_state.__self__,  # type: ignore[attr-defined] # a bound method
)

Code = type | FunctionType


def is_generator(value: object) -> bool:
    """Return whether a value is a generator of Python's, numpy's or torch's with its own state."""
    return issubclass(type(value), (Generator, *_kinds())) and not _is_elsewhere(value)


def search(held: object, most: int = MOST_OF_DATASET) -> tuple[list[object], list[Code]]:
    """Return the generators that are reachable from an object, nearest first, and its code.

    most: objects that are searched. Of functions, only the closures are.
    """
    kinds = _kinds()
    generators: list[object] = []
    code: list[Code] = []
    seen = {id(held)}
    layer, long = [held], list[object]()
    while layer:
        further: list[object] = []
        for each in gc.get_referents(*layer):
            kind = type(each)  # isinstance would run the code of proxies
            if kind in _ATOMS or id(each) in seen or issubclass(kind, ModuleType):
                continue
            if len(seen) >= most:
                return generators, code
            seen.add(id(each))
            if issubclass(kind, Code):
                code.append(each)
                further.append(getattr(each, "__closure__", None))
            elif issubclass(kind, kinds):
                if not _is_elsewhere(each):
                    generators.append(each)
            else:
                is_long = kind in _CONTAINERS and len(each) > _LONG
                (long if is_long else further).append(each)
        layer = further or long
        if not further:
            long = []
    return generators, code


def named_generators(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the generators of a module's variables and of its classes' attributes, with names.

    What the variables hold is searched, too, except those of the script, as they may be datasets.
    """
    home = Path(getattr(module, "__file__", None) or "").stem
    for name, value in _variables(module):
        if is_generator(value):
            yield f"{home}.{name}", value
        elif module is not running_script() and type(value) not in _ATOMS:
            for number, generator in enumerate(search(value, _MOST_OF_VARIABLE)[0]):
                yield f"{home}.{name} {number}", generator


def _variables(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        if not issubclass(type(value), (Code, ModuleType)):
            yield name, value
        elif issubclass(type(value), type) and value.__module__ == module.__name__:
            for attribute, held in list(vars(value).items()):
                if not issubclass(type(held), (Code, ModuleType)):
                    yield f"{name}.{attribute}", held


def own_modules(module: ModuleType) -> list[ModuleType]:
    """Return the user's other modules that are variables of a module, or define what is."""
    values = list(vars(module).values())
    found = {id(home): home for value in values if (home := _home(value)) is not None}
    return [home for home in found.values() if home is not module and is_own(home)]


def _home(value: Any) -> ModuleType | None:
    if issubclass(type(value), Code):
        return sys.modules.get(value.__module__ or "")
    return value if issubclass(type(value), ModuleType) else None


def _kinds() -> tuple[type, ...]:
    torch = sys.modules.get("torch")
    return (BitGenerator, RandomState, random.Random, *([torch.Generator] if torch else []))


def _is_elsewhere(generator: object) -> bool:
    """Return whether a generator has no state, or is seeded with the global ones."""
    torch_generator = getattr(sys.modules.get("torch"), "default_generator", None)
    return isinstance(generator, random.SystemRandom) or any(
        generator is each for each in (*_GLOBAL, torch_generator)
    )
