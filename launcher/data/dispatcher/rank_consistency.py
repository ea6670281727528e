"""Detect ranks that read one stream with conflicting settings.

An epoch read constrains the reads of other ranks only while it is open: restarted ranks may read
with another world size or with other arguments. Only the read's own host can tell if it is open,
and a host that was cut off has not yet reported that its ranks are gone. The dispatcher therefore
asks the hosts of conflicting reads before it refuses a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from launcher.data.control import messages as m
from launcher.data.dispatcher.peer import Peer
from launcher.data.order import BatchPlan, ShardReaderPlan

#: Seconds a host has to answer; after that, its epoch reads no longer block others.
CONFIRM_TIMEOUT = 3.0
_ARGUMENTS = (
    "give the loaders of all ranks the same arguments; two loaders that read one dataset in "
    "different ways need a name= each"
)
_LENGTH = "the dataset must have the same length on all ranks"
_SAMPLER = "a sampler must be a pure function of (length, epoch, seed), the same on every host"


class Difference(NamedTuple):
    """A setting that differs between this rank and another one, and how to fix it."""

    what: str
    mine: Any
    theirs: Any
    fix: str


@dataclass(frozen=True, kw_only=True)
class StreamReader:
    """An epoch read as it is compared with others: its rank, receiver and plan.

    receiver: that of the rank's host. reading: how many times its process has started to read the
    stream.
    """

    rank: int
    receiver: str
    plan: BatchPlan | ShardReaderPlan
    reading: int = 0


class RankConsistency:
    """Compares each new epoch read with the open ones."""

    def __init__(self) -> None:
        self._open: dict[str, StreamReader] = {}
        self._reported: set[frozenset[str]] = set()  # pairs of positions reported

    def __contains__(self, run: str) -> bool:
        return run in self._open

    def objections(self, reader: StreamReader) -> dict[str, str]:
        """Return the open reads that conflict with this one, each with a description.

        Two such reads of one stream would lose some samples and repeat others.
        """
        return {
            run: _conflict_message(reader, other, differences)
            for run, other in self._open.items()
            if other.plan.spec.name == reader.plan.spec.name
            and (differences := list(_differences(reader, other)))
        }

    def start_mismatch(self, reader: StreamReader) -> str | None:
        """Return a warning if another rank has started elsewhere in the stream, else None.

        Each pair of positions is reported once. The difference may be intended: a rank that was
        restarted alone starts where its own state says.
        """
        for other in self._open.values():
            mine, theirs = _start_positions(reader, other)
            pair = frozenset((reader.plan.spec.name, mine, theirs))
            if mine != theirs and pair not in self._reported:
                self._reported.add(pair)
                return (
                    f"rank {reader.rank} starts at {mine}, and rank {other.rank} at {theirs}: if "
                    "only some ranks have loaded a state or called set_epoch(), samples will be "
                    "missed and repeated"
                )
        return None

    def open(self, run: str, reader: StreamReader) -> None:
        """Add an epoch read, which constrains others from now on; it must have no objections."""
        self._open[run] = reader

    def close(self, run: str) -> None:
        """Remove an epoch read."""
        self._open.pop(run, None)

    def forget(self, receiver: str) -> None:
        """Remove the epoch reads of a receiver.

        It was lost, or has reconnected and lists its open reads again.
        """
        for run in [run for run, reader in self._open.items() if reader.receiver == receiver]:
            del self._open[run]


@dataclass(frozen=True, kw_only=True)
class HeldBackRead:
    """An epoch read that waits to be opened.

    peer: its receiver. objections: a description of each conflict, by the conflicting read's id.
    """

    peer: Peer
    opened: m.OpenRun
    objections: dict[str, str]
    since: float


class HeldBackReads:
    """The epoch reads that wait until their conflicts are resolved, by id."""

    def __init__(self) -> None:
        self._all: dict[str, HeldBackRead] = {}

    def __iter__(self) -> Iterator[HeldBackRead]:
        return iter(list(self._all.values()))

    def begin(self, held: HeldBackRead) -> None:
        """Add an epoch read."""
        self._all[held.opened.run] = held

    def end(self, run: str) -> None:
        """Remove an epoch read, if it is held back."""
        self._all.pop(run, None)

    def pop_confirmed(self, run: str) -> Iterator[tuple[HeldBackRead, str]]:
        """Remove what is held back by an epoch read that is confirmed to be still open.

        Yields each with the description of its difference from that read.
        """
        for held in self:
            if run in held.objections:
                self.end(held.opened.run)
                yield held, held.objections[run]


def _differences(reader: StreamReader, other: StreamReader) -> Iterator[Difference]:
    mine, theirs = reader.plan, other.plan
    for what, values in mine.spec.differences(theirs.spec).items():
        yield Difference(what, *values, _ARGUMENTS)
    if isinstance(mine, ShardReaderPlan) or isinstance(theirs, ShardReaderPlan):
        return  # a shard plan has nothing else to compare
    if 1 in (mine.world, theirs.world) or reader.rank == other.rank:
        return  # such a rank reads everything alone
    if mine.world != theirs.world:
        yield Difference("world_size", mine.world, theirs.world, _ARGUMENTS)
    if _samples(mine) != _samples(theirs):
        yield Difference("len(dataset)", _samples(mine), _samples(theirs), _LENGTH)
    if mine.epoch == theirs.epoch and mine.digest != theirs.digest:
        what = f"the digest of the order of epoch {mine.epoch}"
        yield Difference(what, mine.digest, theirs.digest, _SAMPLER)


def _start_positions(reader: StreamReader, other: StreamReader) -> tuple[str, str]:
    """Return where two ranks start that must start together; ("", "") if they need not."""
    mine, theirs = reader.plan, other.plan
    if (
        isinstance(mine, ShardReaderPlan)
        or isinstance(theirs, ShardReaderPlan)
        or mine.spec != theirs.spec
        or not mine.spec.in_order  # each rank has a state of its own
        or not mine.world == theirs.world > 1
        or not reader.reading == other.reading > 0  # a rank that reads again may be anywhere
    ):
        return "", ""
    return _start_position(mine), _start_position(theirs)


def _start_position(plan: BatchPlan) -> str:
    left = f", with {len(plan.holes)} unread ranges before it" if plan.holes else ""
    return f"position {plan.position} of epoch {plan.epoch}{left}"


def _samples(plan: BatchPlan) -> int:
    return plan.length if plan.dataset_length is None else plan.dataset_length


def _conflict_message(
    reader: StreamReader, other: StreamReader, differences: list[Difference]
) -> str:
    """Return the error message for a conflict.

    Only the fix for the first kind of difference is given: the other differences usually follow
    from it.
    """
    fix = differences[0].fix
    values = ", ".join(
        f"{each.what}={each.mine!r} on rank {reader.rank} and {each.theirs!r} on rank {other.rank}"
        for each in differences
        if each.fix == fix
    )
    return (
        f"ranks read the stream {reader.plan.spec.name!r} with different settings, {values}: {fix}"
    )
