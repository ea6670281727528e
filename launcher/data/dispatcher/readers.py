"""That the ranks which read a stream now read it alike. Pure.

A run binds the runs of other ranks as long as it is open, and no longer: ranks that are started
again may read in another world, or with other arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from launcher.data.order.plan import Plan
from launcher.data.order.shards import LanePlan
from launcher.errors import DataError

_ARGUMENTS = (
    "give the loaders of all ranks the same arguments; two loaders that read one dataset in "
    "different ways need a name= each"
)
_LENGTH = "all ranks must see one dataset, of one length"
_SAMPLER = "a sampler must be a pure function of (length, epoch, seed), the same on every host"


class Difference(NamedTuple):
    """What differs between this rank and another one, and how to mend it."""

    what: str
    mine: Any
    theirs: Any
    mend: str


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Who has opened a run. receiver: of its host."""

    rank: int
    receiver: str
    plan: Plan | LanePlan


class Readers:
    """The runs that are open, by their ids."""

    def __init__(self) -> None:
        self._open: dict[str, Reader] = {}

    def open(self, run: str, reader: Reader) -> None:
        """Raises DataError when the stream is read otherwise: samples would be lost and doubled."""
        for other in self._mates(reader):
            if differences := list(_differences(reader, other)):
                raise DataError(_refusal(reader, other, differences))
        self._open[run] = reader

    def close(self, run: str) -> None:
        self._open.pop(run, None)

    def forget(self, receiver: str) -> None:
        """A receiver is lost, or says anew which of its runs are open."""
        for run in [run for run, reader in self._open.items() if reader.receiver == receiver]:
            del self._open[run]

    def _mates(self, reader: Reader) -> Iterator[Reader]:
        """The open runs over the same stream."""
        for other in self._open.values():
            if other.plan.spec.name == reader.plan.spec.name:
                yield other


def _differences(reader: Reader, other: Reader) -> Iterator[Difference]:
    mine, theirs = reader.plan, other.plan
    for what, values in mine.spec.differences(theirs.spec).items():
        yield Difference(what, *values, _ARGUMENTS)
    if isinstance(mine, LanePlan) or isinstance(theirs, LanePlan):
        return  # which say nothing else of the stream
    if 1 in (mine.world, theirs.world) or reader.rank == other.rank:
        return  # such a rank reads all by itself, and knows what it reads
    if mine.world != theirs.world:
        yield Difference("world_size", mine.world, theirs.world, _ARGUMENTS)
    if _samples(mine) != _samples(theirs):
        yield Difference("len(dataset)", _samples(mine), _samples(theirs), _LENGTH)
    if mine.epoch == theirs.epoch and mine.digest != theirs.digest:
        what = f"the digest of the order of epoch {mine.epoch}"
        yield Difference(what, mine.digest, theirs.digest, _SAMPLER)


def _samples(plan: Plan) -> int:
    return plan.length if plan.dataset_length is None else plan.dataset_length


def _refusal(reader: Reader, other: Reader, differences: list[Difference]) -> str:
    """Only the first kind of mistake is told how to mend: the rest follows from it, as a rule."""
    mend = differences[0].mend
    words = ", ".join(
        f"{each.what}={each.mine!r} on rank {reader.rank} and {each.theirs!r} on rank {other.rank}"
        for each in differences
        if each.mend == mend
    )
    return f"the stream {reader.plan.spec.name!r} is read in two ways, {words}: {mend}"
