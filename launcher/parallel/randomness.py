"""Random numbers that depend on the module that draws them, and not on who calls it.

Dropout in a pipeline would else drop other elements than in one process, and others with another
number of stages. Each call of a module that draws gets a seed of its own, from the step, the
replica, the microbatch, the module's name, and how often it was called before in that microbatch.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn


class Randomness:
    """The seeds of a model's modules, or of a stage's.

    drawing: the modules that draw random numbers, by name; each with the number of its calls that
        earlier stages make. seed: of all.
    """

    def __init__(self, model: nn.Module, drawing: Mapping[str, int], seed: int = 0) -> None:
        self._drawing = drawing
        self._seed = seed
        self._place: tuple[int, int, int] = (0, 0, 0)
        self._calls: Counter[str] = Counter()
        self._outside: list[_States] = []
        for name in drawing:
            module = model.get_submodule(name)
            module.register_forward_pre_hook(self._enter(name))
            module.register_forward_hook(self._leave, always_call=True)

    def at(self, *, step: int, replica: int, microbatch: int) -> None:
        """What is called from now on is of this microbatch."""
        self._place = (step, replica, microbatch)
        self._calls = Counter(self._drawing)

    def _enter(self, name: str) -> Any:
        def enter(module: nn.Module, arguments: Any) -> None:
            self._outside.append(_States())
            key = repr((self._seed, *self._place, name, self._calls[name]))
            self._calls[name] += 1
            digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
            seed_all(int.from_bytes(digest, "little"))

        return enter

    def _leave(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self._outside.pop().restore()


class _States:
    """The random states of this process."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)


def seed_all(seed: int) -> None:
    """Seed Python, numpy and torch, of all devices."""
    random.seed(seed)
    np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    torch.manual_seed(seed)
