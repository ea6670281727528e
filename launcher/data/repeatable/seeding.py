"""Random augmentation that is independent of where and when a sample is loaded.

Each sample is loaded with the global random states of `random`, `numpy.random` and (when it is
loaded) `torch` set from (seed, epoch, position in the order). Generators that dataset code makes
without a seed, or keeps from one sample to the next, are seeded from the same numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import struct
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

from launcher.data.repeatable import entropy_sources, entropy_stream
from launcher.data.repeatable.entropy_sources import pool_tasks
from launcher.data.repeatable.entropy_stream import EntropyStream
from launcher.data.repeatable.generator_states import preserve_random_states, seed_globals
from launcher.data.repeatable.kept_generators import kept_generators
from launcher.data.repeatable.single_thread import OneThread

_T = TypeVar("_T")
_Given = TypeVar("_Given")
_EPOCH, _POSITION = struct.Struct("<QQ"), struct.Struct("<Q")


def sample_seed(seed: int, epoch: int, position: int, purpose: bytes = b"") -> int:
    """Return 64 bits for one sample, independent of those of other samples and other purposes."""
    return _number_at(_hash_of_epoch(seed, epoch, purpose), position)


def _number_at(hash_of_epoch: hashlib.blake2b, position: int) -> int:
    hashed = hash_of_epoch.copy()
    hashed.update(_POSITION.pack(position))
    return int.from_bytes(hashed.digest(), "little")


@functools.lru_cache(maxsize=64)
def _hash_of_epoch(seed: int, epoch: int, purpose: bytes) -> hashlib.blake2b:
    """Return the hash that the positions of an epoch continue (measured: half the time of anew)."""
    key = _EPOCH.pack(seed & 0xFFFFFFFFFFFFFFFF, epoch)
    return hashlib.blake2b(key, digest_size=8, person=purpose)


def seed_everything(seed: int, stream: EntropyStream | None = None) -> None:
    """Set the global random states of this process from 64 bits, for dataset code that runs next.

    Until other states are set, this thread draws from `stream` what it would request from the
    system, by default from the thread's own.
    """
    entropy_sources.patch()
    stream = stream or entropy_stream.stream_of_thread()
    stream.reseed(seed)
    entropy_stream.activate(stream)
    if kept_generators.kept:
        kept_generators.seed(stream)
    seed_globals(seed, entropy_sources.patch_torch() if "torch" in sys.modules else None)


def seed_system_entropy(code: object) -> bool:
    """Make this thread draw os.urandom as well if a dataset, or its function, asks for it.

    It does so by an attribute `seed_system_entropy = True`. Returns whether it does.
    """
    asks = getattr(code, "seed_system_entropy", False) is True
    if asks:
        entropy_sources.patch_system()
    (entropy_stream.active_stream() or entropy_stream.stream_of_thread()).seeds_system = asks
    return asks


def run_repeatably(
    call: Callable[[], _T],
    seed: int,
    *,
    one_thread: contextlib.AbstractContextManager[object] | None = None,
    stream: EntropyStream | None = None,
) -> _T:
    """Call user code so that its result is the same in every process, whatever ran there before.

    It has the random states of a seed and one thread; the process has its own again afterwards. Of
    the generators that it leaves behind, each is seeded anew for each sample.

    one_thread: what limits the libraries, by default to one thread. stream: as `seed_everything`.
    """
    with preserve_random_states(), one_thread or OneThread():
        result = _seeded(call, seed, stream)
        kept_generators.keep_made()
    return result


def _seeded(call: Callable[[], _T], seed: int, stream: EntropyStream | None) -> _T:
    """Call a user's function; again when it imports torch, whose generator had not been seeded."""
    had_torch = "torch" in sys.modules
    seed_everything(seed, stream)
    result = call()
    if not had_torch and "torch" in sys.modules:
        seed_everything(seed, stream)
        result = call()
    return result


class SeededCalls(Generic[_Given, _T]):
    """Calls of a user's function for samples or batches, each seeded by its position in an epoch.

    Calls it again when it imports torch, and when a call leaves a generator or a thread behind,
    since that is how later ones find it; and when tasks of a thread pool draw from the global
    generators for the first time. For one thread.
    """

    def __init__(
        self, call: Callable[[_Given], _T], seed: int, epoch: int, purpose: bytes = b""
    ) -> None:
        self._call = call
        self._hash = _hash_of_epoch(seed, epoch, purpose)
        self._stream = entropy_stream.stream_of_thread()

    def __call__(self, given: _Given, position: int) -> _T:
        """Return what the function returns for `given`."""
        seed = _number_at(self._hash, position)
        were_drawing = pool_tasks.are_drawing
        result = _seeded(lambda: self._call(given), seed, self._stream)
        if pool_tasks.are_drawing and not were_drawing:
            seed_everything(seed)
            result = self._call(given)
        has_made = kept_generators.made or kept_generators.locks
        if (has_made or self._stream.has_started) and self._keep_what_is_left():
            seed_everything(seed)
            result = self._call(given)
        return result

    def _keep_what_is_left(self) -> bool:
        return kept_generators.keep_made_by_sample() | self._stream.keep_started()


def keep_generators_of_module(code: object) -> None:
    """Seed the generators in the module of a function or class anew for each sample."""
    if (module := sys.modules.get(getattr(code, "__module__", None) or "")) is not None:
        kept_generators.keep_of_module(module)


def keep_generators_of(dataset: object) -> None:
    """Seed the generators that a dataset holds anew for each sample."""
    kept_generators.keep_held_by(dataset)
