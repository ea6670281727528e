"""The random states of this process, to be restored after dataset code has run.

Python's and numpy's global generators make an object of each of their 625 words when they are asked
for their state, which takes 25 and 150 us for each batch in the script's process. Copied as memory,
the words take under 1 us. Experiments find where they lie; where these fail, as in another
interpreter, the generators are asked.
"""

from __future__ import annotations

import _random
import array
import ctypes
import functools
import random
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from launcher.data.repeatable.entropy_stream import EntropyStream, activate, active_stream
from launcher.data.repeatable.kept_generators import (
    KeptGenerator,
    generators_held_by,
    kept_generators,
)

#: Words of the Mersenne Twister, and the index beside them.
_WORDS = 624
_BYTES = 4 * (_WORDS + 1)
#: numpy's cached normal deviate: whether there is one, padding, and its value.
_DEVIATE = struct.Struct("@i4xd")
#: The generator of Python's functions, and how any is seeded before `seed` is replaced.
PYTHON: Any = random._inst
seed_of_python = _random.Random.seed
_IS_CPYTHON = sys.implementation.name == "cpython"


def seed_globals(seed: int, seed_torch: Callable[[object, int], object] | None) -> None:
    """Seed the generators of `random`, `numpy.random` and, if it is loaded, torch."""
    # As random.seed does with an int; its own way takes twice as long for each sample.
    seed_of_python(PYTHON, seed)
    PYTHON.gauss_next = None
    # Both halves folded into one number: numpy takes seven times as long with two (measured).
    np.random.seed((seed ^ seed >> 32) & 0xFFFFFFFF)
    if seed_torch is not None:
        seed_torch(sys.modules["torch"].default_generator, seed)


class GlobalStates(NamedTuple):
    """The states of the global generators. torch: None while it is not loaded."""

    python: Any
    numpy: Any
    torch: Any

    @classmethod
    def now(cls) -> GlobalStates:
        """Capture the current states."""
        torch = _loaded_torch()
        state = torch.default_generator.get_state() if torch else None
        return cls(_python_state(), _numpy_state(), state)

    def restore(self) -> None:
        """Set the generators to these states."""
        _restore_python(self.python)
        _restore_numpy(self.numpy)
        if self.torch is not None:
            sys.modules["torch"].default_generator.set_state(self.torch)

    def are_now(self) -> bool:
        """Return whether nothing has been drawn since; torch may have been loaded."""
        python, numpy, torch = GlobalStates.now()
        holds_arrays = isinstance(numpy, dict)
        return bool(
            python == self.python
            and (repr(numpy) == repr(self.numpy) if holds_arrays else numpy == self.numpy)
            and (self.torch is None or (torch == self.torch).all())
        )


class RandomStates(NamedTuple):
    """The random states of this process.

    stream: None outside of dataset code. kept: those of the generators that dataset code keeps.
    """

    generators: GlobalStates
    stream: EntropyStream | None
    kept: list[tuple[KeptGenerator, object]]

    @classmethod
    def now(cls) -> RandomStates:
        """Capture the current states."""
        kept = kept_generators.states() if kept_generators.kept else []
        return cls(GlobalStates.now(), active_stream(), kept)

    def restore(self) -> None:
        """Set the process's random states to these."""
        self.generators.restore()
        activate(self.stream)
        if self.kept:
            kept_generators.restore(self.kept)


class HeldGenerators:
    """The random states of dataset code with those that objects hold, as plain values by name."""

    def __init__(self, *holders: object) -> None:
        self._holders = holders

    def states(self) -> dict[str, Any]:
        """Return the current states."""
        torch, stream = _loaded_torch(), active_stream()
        return {
            "python": random.getstate(),
            "numpy": np.random.get_state(legacy=False),
            "torch": torch.default_generator.get_state() if torch else None,
            "stream": stream.counts if stream else None,
            "held": [kept.state() for kept in generators_held_by(self._holders)],
            **{each.label.hex(): each.state() for each in kept_generators.kept if each.is_named},
        }

    def restore(self, states: Mapping[str, Any]) -> None:
        """Set these states, of those generators that exist already."""
        random.setstate(states["python"])
        np.random.set_state(states["numpy"])
        if states["torch"] is not None and (torch := _loaded_torch()):
            torch.default_generator.set_state(states["torch"])
        if (stream := active_stream()) is not None:
            stream.counts = states["stream"]
        for kept, state in zip(generators_held_by(self._holders), states["held"], strict=False):
            kept.restore(state)
        for kept in kept_generators.kept:
            if kept.is_named and (label := kept.label.hex()) in states:
                kept.restore(states[label])


class preserve_random_states:  # noqa: N801 - a context manager, quicker than one by a generator
    """Restore the process's own random states on exit."""

    __slots__ = ("_states",)

    def __enter__(self) -> None:
        self._states = RandomStates.now()

    def __exit__(self, *_: object) -> None:
        self._states.restore()
        if self._states.generators.torch is None and (torch := _loaded_torch()):
            torch.default_generator.seed()  # the state that a fresh import of torch has


def _loaded_torch() -> Any:
    """Return torch if it is loaded, and not just being imported."""
    torch = sys.modules.get("torch")
    is_ready = torch is not None and not getattr(torch.__spec__, "_initializing", False)
    return torch if is_ready else None


def _python_state() -> object:
    if (place := _python_place()) is None:
        return random.getstate()
    generator, memory = place
    return memory.raw, generator.gauss_next


def _restore_python(state: Any) -> None:
    if (place := _python_place()) is None:
        random.setstate(state)
        return
    generator, memory = place
    memory.raw, generator.gauss_next = state


def _numpy_state() -> object:
    if (place := _numpy_place()) is None:
        return np.random.get_state(legacy=False)
    generator, deviate = place
    bits = generator._bit_generator
    if type(bits) is not np.random.MT19937:
        return np.random.get_state(legacy=False)
    return bits, _words_of(bits).raw, deviate.raw


def _restore_numpy(state: Any) -> None:
    if (place := _numpy_place()) is None or isinstance(state, dict):
        np.random.set_state(state)
        return
    generator, memory = place
    bits, words, memory.raw = state
    if generator._bit_generator is not bits:  # the dataset's code has put another in its place
        np.random.set_bit_generator(bits)  # type: ignore[attr-defined] # not in its __all__
    _words_of(bits).raw = words


@functools.lru_cache(maxsize=1)
def _words_of(bits: Any) -> Any:
    """Return the memory of a Mersenne Twister's index and words."""
    return _memory(bits.ctypes.state_address, _BYTES)


def _memory(address: int, size: int) -> Any:
    """Return memory that is copied by `.raw`, a few times as quickly as by `string_at`."""
    return (ctypes.c_char * size).from_address(address)


@functools.cache
def _python_place() -> tuple[Any, Any] | None:
    """Return the global generator and the memory of its index and words."""
    generator: Any = random.getstate.__self__  # type: ignore[attr-defined] # a bound method
    offset = _python_offset()
    return None if offset is None else (generator, _memory(id(generator) + offset, _BYTES))


@functools.cache
def _numpy_place() -> tuple[Any, Any] | None:
    """Return the global generator and the memory of its normal deviate."""
    generator: Any = np.random.get_state.__self__  # type: ignore[attr-defined] # a bound method
    offset = _deviate_offset()
    return None if offset is None else (generator, _memory(id(generator) + offset, _DEVIATE.size))


def _python_offset() -> int | None:
    """Return the offset of index and words in a `random.Random`; None if they are not there."""
    if not _IS_CPYTHON:
        return None
    probe, other = random.Random(1), random.Random(2)
    *words, index = probe.getstate()[1]
    memory = ctypes.string_at(id(probe), random.Random.__basicsize__)
    offset = memory.find(struct.pack("@i", index) + array.array("I", words).tobytes())
    if offset < 0:
        return None
    ctypes.memmove(id(other) + offset, id(probe) + offset, _BYTES)
    return offset if other.getstate() == probe.getstate() else None


def _deviate_offset() -> int | None:
    """Return the offset of the normal deviate in a RandomState, if its words are where they say."""
    if not _IS_CPYTHON or not hasattr(np.random, "set_bit_generator"):
        return None
    probe, other = np.random.RandomState(1), np.random.RandomState(2)
    probe.standard_normal(3)  # of two deviates, one is kept
    state: Any = probe.get_state(legacy=False)
    memory = ctypes.string_at(id(probe), np.random.RandomState.__basicsize__)
    offset = memory.find(struct.pack("@d", state["gauss"])) - (_DEVIATE.size - 8)
    if offset < 0 or _DEVIATE.unpack_from(memory, offset) != (1, state["gauss"]):
        return None
    ours: Any = probe
    theirs: Any = other
    source = ours._bit_generator.ctypes.state_address
    ctypes.memmove(theirs._bit_generator.ctypes.state_address, source, _BYTES)
    ctypes.memmove(id(other) + offset, id(probe) + offset, _DEVIATE.size)
    found: Any = other.get_state(legacy=False)
    same = np.array_equal(found["state"]["key"], state["state"]["key"])
    same = same and found["state"]["pos"] == state["state"]["pos"]
    return offset if same and found["gauss"] == state["gauss"] and found["has_gauss"] else None
