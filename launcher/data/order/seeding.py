"""Random augmentation that does not depend on who computes it, nor when.

Each sample is loaded with the global random states of `random`, `numpy.random` and (when it is
loaded) `torch` set from (seed, epoch, position in the order).
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

_T = TypeVar("_T")


def sample_seed(seed: int, epoch: int, position: int, purpose: bytes = b"") -> int:
    """64 bits for one sample, unrelated to those of its neighbours, and to other purposes'."""
    key = struct.pack("<QQQ", seed & 0xFFFFFFFFFFFFFFFF, epoch, position)
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=purpose).digest(), "little")


def seed_everything(seed: int) -> None:
    """Set the global random states of this process from 64 bits."""
    random.seed(seed)
    # Both halves as one number: from two, numpy was measured to take seven times as long.
    np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)


def seeded(call: Callable[[], _T], seed: int) -> _T:
    """What a function of the user's returns with these random states."""
    had_torch = "torch" in sys.modules
    seed_everything(seed)
    result = call()
    if not had_torch and "torch" in sys.modules:
        # It has just imported torch, whose generator had no seed yet.
        seed_everything(seed)
        result = call()
    return result


@dataclass(frozen=True, kw_only=True)
class States:
    """The global random states of this process. torch: None while it is not loaded."""

    python: Any
    numpy: Any
    torch: Any

    @classmethod
    def now(cls) -> States:
        torch = sys.modules.get("torch")
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(),
            torch=torch.get_rng_state() if torch else None,
        )

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        if self.torch is not None:
            sys.modules["torch"].set_rng_state(self.torch)


@contextlib.contextmanager
def states_kept() -> Iterator[None]:
    """Leave the process's own random states as they were found."""
    states = States.now()
    try:
        yield
    finally:
        states.restore()
        if states.torch is None and (torch := sys.modules.get("torch")):
            torch.default_generator.seed()  # as it is where torch has just been imported
