"""Generators of dataset code that outlive the call in which they were made.

A dataset may make one in its constructor, or at its first sample, and draw from it for every
sample. What it gives would then depend on the samples that this process prepared before. So each
is seeded anew for each sample, by the seed that it was made with and the sample's own.
"""

from __future__ import annotations

import _random
import contextlib
import gc
import hashlib
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from numpy.random import BitGenerator, Generator, RandomState, SeedSequence

from launcher.data.batches import is_own
from launcher.data.repeatable.entropy_stream import EntropyStream, drawing_from
from launcher.data.repeatable.generator_search import named_generators, own_modules, search

#: Searches for numpy's generators that samples have made. Each looks at all objects of the process,
#: and datasets make what they keep at their first samples.
_SEARCHES = 16
#: References, as sys.getrefcount counts them, to what nothing but this module uses.
_OWN_REFERENCES = 2
#: Bytes of a seed.
_SIZE = 16
#: Methods that seed a generator of Python's, return its state and set it; and those of torch's.
_METHODS = ("seed", "getstate", "setstate")
_METHODS_OF_TORCH = ("manual_seed", "get_state", "set_state")


class KeptGenerator(ABC):
    """A generator that is seeded anew for each sample.

    label: distinguishes it from others, the same in every process. is_named: the label is the name
    of a variable.
    """

    is_named = False

    def __init__(self, label: bytes) -> None:
        self.label = b"k" + hashlib.blake2b(label, digest_size=_SIZE).digest()

    @abstractmethod
    def seed(self, entropy: bytes) -> None:
        """Seed it as if it had been made with this entropy."""

    @abstractmethod
    def state(self) -> object:
        """Return its state; None if it does not exist any more."""

    @abstractmethod
    def restore(self, state: object) -> None:
        """Set its state."""

    @property
    @abstractmethod
    def generator(self) -> Any:
        """The generator that is seeded, of numpy's the bit generator; None if it is gone."""

    @property
    def is_gone(self) -> bool:
        """True if it does not exist any more."""
        return self.generator is None


class _WeaklyKept(KeptGenerator):
    """A generator of Python's or torch's, which a weak reference follows."""

    def __init__(self, generator: object, label: bytes) -> None:
        super().__init__(label)
        self._generator: weakref.ref[Any] = weakref.ref(generator)
        is_pythons = isinstance(generator, _random.Random)
        self._seed, self._get, self._set = _METHODS if is_pythons else _METHODS_OF_TORCH

    @property
    def generator(self) -> Any:
        return self._generator()

    def seed(self, entropy: bytes) -> None:
        if (generator := self.generator) is not None:
            getattr(generator, self._seed)(int.from_bytes(entropy[:8], "little"))

    def state(self) -> object:
        generator = self.generator
        return None if generator is None else getattr(generator, self._get)()

    def restore(self, state: object) -> None:
        if state is not None and (generator := self.generator) is not None:
            getattr(generator, self._set)(state)


class _OfNumpy(KeptGenerator):
    """A bit generator, and the RandomState that draws from it, if there is one."""

    def __init__(self, generator: BitGenerator, legacy: RandomState | None, label: bytes) -> None:
        super().__init__(label)
        self._generator = generator
        self._legacy = legacy  # neither can be referred to weakly

    @property
    def generator(self) -> Any:
        return self._generator

    @property
    def is_gone(self) -> bool:
        if self._legacy is None:
            return sys.getrefcount(self._generator) <= _OWN_REFERENCES
        return sys.getrefcount(self._legacy) <= _OWN_REFERENCES

    def seed(self, entropy: bytes) -> None:
        number = int.from_bytes(entropy, "little")
        sequence = getattr(self._generator, "seed_seq", None)
        if isinstance(sequence, SeedSequence):
            # In place, so that `spawn` begins anew as well.
            sequence.__init__(number, pool_size=sequence.pool_size)  # type: ignore[misc]
        else:
            sequence = SeedSequence(number)
        self._generator.state = type(self._generator)(sequence).state
        if (legacy := self._legacy) is not None:
            legacy.set_state({**legacy.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})

    def state(self) -> object:
        sequence = getattr(self._generator, "seed_seq", None)
        seeds = sequence.state if isinstance(sequence, SeedSequence) else None
        if self._legacy is None:
            return self._generator.state, seeds
        return self._legacy.get_state(legacy=False), seeds

    def restore(self, state: object) -> None:
        saved: Any = state
        own, seeds = saved
        if seeds is not None:
            self._generator.seed_seq.__init__(**seeds)  # type: ignore[misc]
        if self._legacy is None:
            self._generator.state = own
        else:
            self._legacy.set_state(own)


class KeptGenerators:
    """The generators of this process that are seeded anew for each sample."""

    def __init__(self) -> None:
        self.kept: list[KeptGenerator] = []
        #: Made or seeded since the last look, with the label of the seed. Numpy's are found by
        #: their locks, which can be referred to weakly.
        self.made: list[tuple[weakref.ref[Any], bytes]] = []
        self.locks: list[weakref.ref[Any]] = []
        self._entropies: dict[int, bytes] = {}
        self._searches = _SEARCHES
        # By module: its variables when they were looked at, and the others that it imports.
        self._modules: dict[str, tuple[list[int], list[ModuleType]]] = {}

    def record(self, generator: object, label: bytes) -> None:
        """Record that dataset code has seeded a generator of Python's or torch's.

        Not one that is kept: its label does not follow the latest sample.
        """
        if not any(kept.generator is generator for kept in self.kept):
            self.made.append((weakref.ref(generator), label))

    def record_lock(self, lock: object) -> None:
        """Record that a bit generator of numpy's with this lock is being made."""
        self.locks.append(weakref.ref(lock))

    def record_entropy(self, entropy: int, label: bytes) -> None:
        """Record that one of numpy's seed sequences is made without a seed."""
        self._entropies[entropy] = label

    def keep_made(self) -> bool:
        """Keep what was made since the last look and still exists; return whether anything was.

        For an import or a constructor, after which all that is left is the dataset's.
        """
        with drawing_from(None):
            found: list[KeptGenerator] = [
                _WeaklyKept(generator, label)
                for reference, label in self.made
                if (generator := reference()) is not None
            ]
            for generator, legacy in _of_locks(self.locks):
                found.append(_OfNumpy(generator, legacy, self._label_of_numpy(generator)))
        self.made.clear()
        self.locks.clear()
        self._entropies.clear()
        self._keep(found)
        return bool(found)

    def keep_held_by(self, dataset: object) -> None:
        """Keep the generators that a dataset holds, or modules of its code.

        Those that its code has not made, or not seeded, as a `torch.Generator()` has a seed of its
        own, and any may have been given a state.
        """
        generators, code = search(dataset)
        for home in dict.fromkeys(each.__module__ for each in code):
            module = sys.modules.get(home or "")
            if module is not None and (home == type(dataset).__module__ or is_own(module)):
                self.keep_of_module(module)
        self._keep(_held(generators))

    def _keep(self, found: list[KeptGenerator]) -> None:
        """Keep each generator once, under its latest label; one that is kept has its label."""
        known = {id(kept.generator) for kept in self.kept}
        latest = {id(kept.generator): kept for kept in found}
        self.kept += [kept for generator, kept in latest.items() if generator not in known]

    def keep_of_module(self, module: ModuleType, visited: set[str] | None = None) -> None:
        """Keep the generators that a module holds, and the user's other modules that it imports.

        They may have been imported long ago, and are seeded by their names, whether the script or a
        data host has imported them. A notebook may have new ones since the last time.
        """
        visited = set() if visited is None else visited
        if module.__name__ in visited:
            return
        visited.add(module.__name__)
        variables = list(map(id, list(vars(module).values())))
        before, others = self._modules.get(module.__name__, ([], []))
        if variables != before:
            others = own_modules(module)
            self._modules[module.__name__] = variables, others
        for other in others:
            self.keep_of_module(other, visited)
        if variables != before:
            self._keep_named(module)

    def _keep_named(self, module: ModuleType) -> None:
        named = [_kept(each, name.encode()) for name, each in named_generators(module)]
        known = {id(kept.generator) for kept in self.kept if kept.is_named}
        named = [kept for kept in named if id(kept.generator) not in known]
        for kept in named:
            kept.is_named = True
        again = {id(kept.generator) for kept in named}
        self.kept = [kept for kept in self.kept if id(kept.generator) not in again]
        self._keep(named)

    def keep_made_by_sample(self) -> bool:
        """Keep what a sample has made and left behind; return whether anything was.

        The sample should then be loaded again, as it will be when it is not the first.
        """
        self.made = [each for each in self.made if each[0]() is not None]
        self.locks = [lock for lock in self.locks if lock() is not None]
        if self.locks:
            if self._searches == 0:
                self.locks.clear()
            else:
                self._searches -= 1
        if not (self.made or self.locks):
            self._entropies.clear()
            return False
        return self.keep_made()

    def seed(self, stream: EntropyStream) -> None:
        """Seed all for the sample whose seed the stream has been given."""
        self.kept = [kept for kept in self.kept if not kept.is_gone]
        with drawing_from(None):
            for kept in self.kept:
                kept.seed(stream.draw_labelled(kept.label, _SIZE))

    def states(self) -> list[tuple[KeptGenerator, object]]:
        """Return the states of all, for `restore`."""
        return [(kept, kept.state()) for kept in self.kept]

    def restore(self, states: list[tuple[KeptGenerator, object]]) -> None:
        """Set the states that `states` returned."""
        for kept, state in states:
            kept.restore(state)

    def _label_of_numpy(self, generator: BitGenerator) -> bytes:
        """Return what identifies the seed of a bit generator, whatever was drawn from it since."""
        sequence = getattr(generator, "seed_seq", None)
        if not isinstance(sequence, SeedSequence):  # seeded as RandomState does
            return repr(_first_numbers(generator)).encode()
        entropy: Any = sequence.entropy
        if isinstance(entropy, int) and entropy in self._entropies:
            return self._entropies[entropy] + repr(sequence.spawn_key).encode()
        return repr((entropy, sequence.spawn_key)).encode()


#: Those of this process, as its global random states are.
kept_generators = KeptGenerators()


def _of_locks(
    locks: list[weakref.ref[Any]],
) -> Iterator[tuple[BitGenerator, RandomState | None]]:
    """Yield the bit generators with these locks, and the RandomState that draws from each."""
    living = [lock for reference in locks if (lock := reference()) is not None]
    if not living:
        return
    owners = gc.get_referrers(*living)
    legacy = {id(each._bit_generator): each for each in owners if type(each) is RandomState}
    for owner in owners:
        if isinstance(owner, BitGenerator):
            yield owner, legacy.get(id(owner))


def _first_numbers(generator: BitGenerator) -> list[int]:
    """Return the numbers that a bit generator would give next."""
    state = generator.state
    numbers = [int(number) for number in generator.random_raw(4)]
    generator.state = state
    return numbers


@contextlib.contextmanager
def seeded_meanwhile(generators: Sequence[object], seed: int) -> Iterator[None]:
    """Seed generators from 64 bits and their places here, and restore them at the end."""
    stream = EntropyStream()
    stream.reseed(seed)
    kept = [_kept(each, b"place %d" % place) for place, each in enumerate(generators)]
    with drawing_from(None):
        states = [each.state() for each in kept]
        for each in kept:
            each.seed(stream.draw_labelled(each.label, _SIZE))
    try:
        yield
    finally:
        with drawing_from(None):
            for each, state in zip(kept, states, strict=True):
                each.restore(state)


def generators_held_by(holders: tuple[object, ...]) -> list[KeptGenerator]:
    """Return the generators that objects hold, also those in the frame of an iterator."""
    return _held(search(holders)[0])


def _held(generators: Sequence[object]) -> list[KeptGenerator]:
    return [_kept(each, b"held %d" % at) for at, each in enumerate(generators)]


def _kept(generator: object, label: bytes) -> KeptGenerator:
    if isinstance(generator, Generator):
        generator = generator.bit_generator
    if isinstance(generator, BitGenerator):
        return _OfNumpy(generator, None, label)
    if isinstance(generator, RandomState):
        return _OfNumpy(generator._bit_generator, generator, label)
    return _WeaklyKept(generator, label)
