"""Sampler objects as torch's DataLoader takes them: torch's own, a script's, or lists of ids.

SequentialSampler, RandomSampler and DistributedSampler become settings of the loader. Others are
iterated in the script's process, once per epoch, with random numbers of (seed, epoch).
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.data.order import SampleOrder, SamplerCall
from launcher.data.repeatable import (
    OneThread,
    is_generator,
    preserve_random_states,
    seeded_meanwhile,
    seeding,
)
from launcher.errors import DataError


@dataclass(frozen=True, kw_only=True)
class TorchSampler:
    """The loader's arguments that do what a sampler object does.

    given: the object, None where there is none; what: the argument that it was given as. length: of
    the dataset that it was made for; None if any. drawn: the orders of an object that is iterated.
    """

    given: Any = None
    what: str = "sampler"
    shuffle: bool = False
    seed: int | None = None
    rank: int | None = None
    world_size: int | None = None
    uneven: str | None = None
    length: int | None = None
    drawn: DrawnOrders | None = None

    def reread(self) -> TorchSampler:
        """Return its meaning now, since the script may have changed its attributes.

        Raises DataError where it means an order of another kind than when the loader was made.
        """
        if self.given is None or self.drawn is not None:
            return self
        if (now := _as_settings(self.given)) is None:
            raise DataError(
                f"the attributes of the {type(self.given).__name__} have changed since the loader "
                "was made, so that it has another kind of order: make a new DataLoader with it"
            )
        return now

    def settings(self, *, shuffle: bool, seed: int, uneven: str) -> dict[str, Any]:
        """Return the stream's settings with those of the sampler, which win.

        Raises DataError for shuffle=True beside a sampler, as torch does.
        """
        if shuffle and self.given is not None and self.drawn is None:
            raise DataError(
                "sampler excludes shuffle: leave the sampler out, and shuffle=True gives a random "
                "order, or leave shuffle out"
            )
        return {
            "shuffle": shuffle or self.shuffle,
            "seed": seed if self.seed is None else self.seed,
            "uneven": self.uneven or uneven,
        }

    def check_length(self, dataset: str, length: int) -> None:
        """Raise DataError for a dataset of another length than the sampler's own."""
        if self.length is not None and self.length != length:
            raise DataError(
                f"the sampler was made for {self.length} samples, and {dataset} has {length}: make "
                f"it for this dataset; a part of it is chosen by a list of ids, such as "
                f"range({self.length}), or SubsetRandomSampler"
            )

    def share(self, rank: int | None, world_size: int | None) -> tuple[int | None, int | None]:
        """Return this reader's rank and world size, by default the sampler's."""
        return (
            self.rank if rank is None else rank,
            self.world_size if world_size is None else world_size,
        )

    @property
    def generator(self) -> Any:
        """The torch.Generator whose seed is the order's; None if it has none."""
        return None if self.drawn is not None else getattr(self.given, "generator", None)


class SetEpoch(int):
    """The number of an epoch as the script set it on a sampler: equal ones are told apart."""


class FollowedEpoch:
    """The epoch that a script sets on a sampler object, also where it sets the number of before.

    The number that the sampler shows is replaced by an equal object, which `set_epoch` replaces.
    """

    def __init__(self, sampler: TorchSampler) -> None:
        self._sampler = sampler.given
        self._seen: int | None = None
        if not self._shown():  # 0, from which a sampler begins
            self.skip()

    def newly_set(self) -> int | None:
        """Return the epoch that was set since the last call; None if none was."""
        shown = self._shown()
        if shown is None or shown is self._seen:
            return None
        self._seen = shown
        return int(shown)

    def skip(self) -> None:
        """Ignore what was set before, as something else has set the epoch since."""
        self._seen = self._shown()

    def _shown(self) -> int | None:
        """Return the sampler's epoch, as an object that is not set twice where that is possible."""
        for part, name, epoch in _epochs(self._sampler):
            if type(epoch) is SetEpoch or name not in getattr(part, "__dict__", {}):
                return epoch
            shown = part.__dict__[name] = SetEpoch(epoch)
            return shown
        return None


class DrawnOrders:
    """The order of each epoch, drawn from a sampler or batch sampler object."""

    def __init__(self, sampler: Any, what: str) -> None:
        self.sampler, self.what = sampler, what
        self.name = (
            f"{type(sampler).__module__}:{type(sampler).__qualname__}{_ids_digest(sampler)}(...)"
        )
        self._latest: tuple[SamplerCall, SampleOrder] | None = None

    def __call__(self, call: SamplerCall) -> SampleOrder:
        """Return the order of an epoch, drawn once until `redraw`; raises DataError."""
        if self._latest is None or self._latest[0] != call:
            with (
                preserve_random_states(),
                OneThread(),
                self._at(call.epoch),
                self._seeded(call),
            ):
                self._latest = (call, call.order(lambda: iter(self.sampler)))
        return self._latest[1]

    def redraw(self) -> None:
        """Draw the next order anew, since the script may have changed the sampler."""
        self._latest = None

    @contextlib.contextmanager
    def _at(self, epoch: int) -> Iterator[None]:
        """Set the epoch and the generators of the sampler, and restore them."""
        epochs = list(_epochs(self.sampler))
        states = {generator: generator.get_state() for generator in self._generators()}
        for part, _, _ in epochs:
            part.set_epoch(epoch)
        for generator in states:
            seed = generator.initial_seed()
            generator.manual_seed(seeding.sample_seed(seed, epoch, 0, purpose=b"order"))
        try:
            yield
        finally:
            for part, name, before in epochs:
                part.set_epoch(before)
                if type(before) is SetEpoch and name in part.__dict__:
                    part.__dict__[name] = before  # the very object, by which it is known
            for generator, state in states.items():
                generator.set_state(state)

    def _generators(self) -> list[Any]:
        """Return the torch generators that the sampler has now."""
        held = (getattr(part, "generator", None) for part in _nested(self.sampler))
        return [each for each in held if hasattr(each, "initial_seed")]

    def _seeded(self, call: SamplerCall) -> contextlib.AbstractContextManager[None]:
        """Seed the other generators that are attributes of the sampler, and restore them."""
        own = self._generators()
        held = [
            value
            for part in _nested(self.sampler)
            for value in getattr(part, "__dict__", {}).values()
            if is_generator(value) and value not in own
        ]
        seed = seeding.sample_seed(call.seed, call.epoch, 0, purpose=b"sampler")
        return seeded_meanwhile(held, seed)


def read_sampler(sampler: Any, what: str, home: str) -> TorchSampler:
    """Return the meaning of a sampler object; raises DataError for one that has none here."""
    if what == "sampler" and (settings := _as_settings(sampler)) is not None:
        return settings
    if not hasattr(sampler, "__iter__") or hasattr(sampler, "__next__"):
        raise DataError(_unknown(sampler, what, home))
    for part in _nested(sampler):
        if getattr(part, "num_replicas", 1) != 1:
            raise DataError(
                f"the {what} {type(part).__name__} shares the samples among "
                f"num_replicas={part.num_replicas} ranks, as the loader does once more: make it "
                "with num_replicas=1, rank=0, or write a function of (length, epoch, seed) that "
                "returns the ids of all ranks"
            )
    return TorchSampler(given=sampler, what=what, drawn=DrawnOrders(sampler, what))


def _as_settings(sampler: Any) -> TorchSampler | None:
    """Return the loader's own arguments for a sampler that means no more than these."""
    torch_data = sys.modules.get("torch.utils.data")
    if torch_data is None:
        return None
    kind = type(sampler)
    if kind is torch_data.SequentialSampler:
        return TorchSampler(given=sampler, length=_length(sampler.data_source))
    if (
        kind is torch_data.RandomSampler
        and not sampler.replacement
        and sampler._num_samples is None
    ):
        generator = sampler.generator
        seed = None if generator is None else generator.initial_seed()
        return TorchSampler(
            given=sampler, shuffle=True, seed=seed, length=_length(sampler.data_source)
        )
    if kind is torch_data.DistributedSampler:
        return TorchSampler(
            given=sampler,
            shuffle=sampler.shuffle,
            seed=sampler.seed,
            rank=sampler.rank,
            world_size=sampler.num_replicas,
            uneven="drop" if sampler.drop_last else "pad",
            length=_length(sampler.dataset),
        )
    return None


def _length(dataset: Any) -> int | None:
    """Return the length of a sampler's dataset; None if it has none, which torch allows."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _nested(sampler: Any) -> Iterator[Any]:
    """Yield a sampler and those that it cuts into batches or wraps."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "sampler", None)


def _ids_digest(sampler: Any) -> str:
    """Return a digest of a list or an array of ids, which a resume point must fit; else ""."""
    if not isinstance(sampler, Sequence) and not hasattr(sampler, "__array__"):
        return ""
    ids = [each.tolist() if hasattr(each, "tolist") else each for each in sampler]
    return f"[{hashlib.blake2b(repr(ids).encode(), digest_size=4).hexdigest()}]"


def _epochs(sampler: object) -> Iterator[tuple[Any, str, int]]:
    """Yield the parts of a sampler that have a `set_epoch`, with the attribute that shows it."""
    for part in _nested(sampler):
        if hasattr(part, "set_epoch"):
            shown = ((name, getattr(part, name, None)) for name in ("epoch", "_epoch"))
            for name, epoch in shown:
                if isinstance(epoch, int):
                    yield part, name, epoch
                    break


def _unknown(sampler: object, what: str, home: str) -> str:
    returns = "batches of ids" if what == "batch_sampler" else "the ids of an epoch in order"
    kind = type(sampler).__name__
    return (
        f"a {what} is an object that can be iterated again in each epoch, or a function, named as "
        f"in '{home}:function'; got a {kind}: write a function of (length, epoch, seed) that "
        f"returns {returns}"
    )
