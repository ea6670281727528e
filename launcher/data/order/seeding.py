"""Random augmentation that is independent of where and when a sample is loaded.

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
    """Return 64 bits for one sample, independent of those of other samples and other purposes."""
    key = struct.pack("<QQQ", seed & 0xFFFFFFFFFFFFFFFF, epoch, position)
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=purpose).digest(), "little")


def seed_everything(seed: int) -> None:
    """Set the global random states of this process from 64 bits."""
    random.seed(seed)
    # Both halves folded into one number: numpy takes seven times as long with two (measured).
    np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)


def seeded(call: Callable[[], _T], seed: int) -> _T:
    """Call a user's function with the random states of a seed, and return its result.

    Calls it again when the first call imports torch.
    """
    had_torch = "torch" in sys.modules
    seed_everything(seed)
    result = call()
    if not had_torch and "torch" in sys.modules:
        # The call just imported torch, whose generator had not been seeded.
        seed_everything(seed)
        result = call()
    return result


@dataclass(frozen=True, kw_only=True)
class RandomStates:
    """The global random states of this process. torch: None while it is not loaded."""

    python: Any
    numpy: Any
    torch: Any

    @classmethod
    def now(cls) -> RandomStates:
        """Capture the current states."""
        torch = sys.modules.get("torch")
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(),
            torch=torch.get_rng_state() if torch else None,
        )

    def restore(self) -> None:
        """Set the process's random states to these."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        if self.torch is not None:
            sys.modules["torch"].set_rng_state(self.torch)


@contextlib.contextmanager
def preserve_random_states() -> Iterator[None]:
    """Restore the process's own random states on exit."""
    states = RandomStates.now()
    try:
        yield
    finally:
        states.restore()
        if states.torch is None and (torch := sys.modules.get("torch")):
            torch.default_generator.seed()  # the state that a fresh import of torch has
