"""Random numbers that depend on the module that draws them, and not on who calls it.

Dropout in a pipeline would else drop other elements than in one process, and others with another
number of stages. Each call of a module that draws gets a seed of its own, from the step, the
replica, the microbatch, the module's name, and how often it was called before in that microbatch.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

_NONE: Mapping[str, int] = MappingProxyType({})


class Randomness:
    """The seeds of a model's modules, or of a stage's.

    drawing: names of the modules that draw random numbers. seed: of all.
    """

    def __init__(self, model: nn.Module, drawing: Iterable[str], seed: int = 0) -> None:
        self._seed = seed
        self._place: tuple[int, int, int] = (0, 0, 0)
        self._calls: Counter[str] = Counter()
        self._outside: list[_States] = []
        for name in drawing:
            module = model.get_submodule(name)
            module.register_forward_pre_hook(self._enter(name, of_all=not _is_torchs(module)))
            module.register_forward_hook(self._leave, always_call=True)

    def at(
        self, *, step: int, replica: int, microbatch: int, earlier: Mapping[str, int] = _NONE
    ) -> None:
        """What is called from now on is of this microbatch.

        earlier: calls of modules that others have made in it, in earlier stages.
        """
        self._place = (step, replica, microbatch)
        self._calls = Counter(earlier)

    def _enter(self, name: str, *, of_all: bool) -> Any:
        def enter(module: nn.Module, arguments: Any) -> None:
            self._outside.append(_States(of_all=of_all))
            key = (self._seed, *self._place, name, self._calls[name])
            self._calls[name] += 1
            _seed(_seed_of(key), of_all=of_all)

        return enter

    def _leave(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self._outside.pop().restore()


@contextlib.contextmanager
def seeded(*key: object) -> Iterator[None]:
    """Random numbers in here depend on the key alone; afterwards none have been drawn."""
    outside = _States(of_all=True)
    seed_at(*key)
    try:
        yield
    finally:
        outside.restore()


def _is_torchs(module: nn.Module) -> bool:
    """Whether it is torch's own, all of it: such layers draw from torch's generators alone."""
    return all(type(each).__module__.startswith("torch.nn.") for each in module.modules())


class _States:
    """The random states of this process; of_all: Python's and numpy's too, which take longer."""

    def __init__(self, *, of_all: bool) -> None:
        self._others = (random.getstate(), np.random.get_state()) if of_all else None
        self._torch = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        if self._others is not None:
            python, numpys = self._others
            random.setstate(python)
            np.random.set_state(numpys)
        torch.set_rng_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


def seed_at(*place: object) -> None:
    """Seed this process's generators by a place in a training: the same whenever it is there."""
    _seed(_seed_of(place), of_all=True)


def _seed_of(key: tuple[object, ...]) -> int:
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _seed(seed: int, *, of_all: bool) -> None:
    if of_all:
        random.seed(seed)
        np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    # torch.manual_seed would also write down the stack, for each kind of device that is not in
    # use: at least 0.2 ms a call (torch 2.13).
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
