"""States of Python's and numpy's global generators, copied as memory.

Both make an object of each of their 625 words when they are asked for their state, which takes 25
and 150 us for each batch in the script's process. The words themselves are copied in under 1 us.
Experiments find where they lie; where these fail, as in another interpreter, the generators are
asked.
"""

from __future__ import annotations

import array
import ctypes
import functools
import random
import struct
import sys
from typing import Any

import numpy as np

#: Words of the Mersenne Twister, and the index beside them.
_WORDS = 624
_BYTES = 4 * (_WORDS + 1)
#: numpy's cached normal deviate: whether there is one, padding, and its value.
_DEVIATE = struct.Struct("@i4xd")
_IS_CPYTHON = sys.implementation.name == "cpython"


def python_state() -> object:
    """Return the state of the `random` module's generator, for `restore_python`."""
    if (place := _python_place()) is None:
        return random.getstate()
    generator, memory = place
    return memory.raw, generator.gauss_next


def restore_python(state: Any) -> None:
    """Set the `random` module's generator to a state."""
    if (place := _python_place()) is None:
        random.setstate(state)
        return
    generator, memory = place
    memory.raw, generator.gauss_next = state


def numpy_state() -> object:
    """Return the state of `numpy.random`'s generator, for `restore_numpy`."""
    if (place := _numpy_place()) is None:
        return np.random.get_state(legacy=False)
    generator, deviate = place
    bits = generator._bit_generator
    if type(bits) is not np.random.MT19937:
        return np.random.get_state(legacy=False)
    return bits, _words_of(bits).raw, deviate.raw


def restore_numpy(state: Any) -> None:
    """Set `numpy.random`'s generator to a state."""
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
