"""The steps of one run: leased, arrived, taken; and how far it may be ahead of its rank. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.control.names import host_of

#: Batches ahead of a rank before the size of one is known, or before the rank has taken any.
FIRST_WINDOW = 2
#: Batches ahead of a rank, if memory allows, until there are many workers for it.
USUAL_WINDOW = 256
#: Batches for each worker of a rank: one is prepared, one waits for that, and one has arrived.
WINDOW_PER_WORKER = 3
#: Batches ahead of a rank at most, however many workers there are and however small batches are.
LAST_WINDOW = 1 << 14


def window_for(workers: int, ranks: int) -> int:
    """Batches ahead of each of so many ranks that keep so many workers busy, and no fewer."""
    return min(LAST_WINDOW, max(USUAL_WINDOW, WINDOW_PER_WORKER * workers // max(1, ranks)))


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a receiver knows of a run.

    taken: every step below is taken; early: and these, beyond it. arrived: which worker prepared
    the batches that are not taken. largest: bytes of the largest so far.
    """

    taken: int = 0
    early: Collection[int] = ()
    arrived: Mapping[int, str] = field(default_factory=dict)
    largest: int = 0


@dataclass(eq=False)
class Shelf:
    """The memory of one receiver, in bytes, and how many runs are being read from it.

    window: batches ahead of each rank, at most.
    """

    budget: int
    readers: int = 0
    window: int = USUAL_WINDOW

    @property
    def share(self) -> int:
        return self.budget // max(1, self.readers)


@dataclass(kw_only=True, eq=False)
class Run:
    """One rank's pass over one epoch of a stream.

    after: the run whose rank reads it before this one, as long as that is open. active: its rank
    has begun to read; a run that nobody reads holds no more than FIRST_WINDOW batches.
    is_lane: it is a shard that is iterated, so that its steps are prepared in order, by one worker
    as long as that can: its owner, who has the iterator. Another reads the shard from its start.
    """

    name: str
    receiver: str
    rank: int
    steps: int
    shelf: Shelf
    touched: float  # when its rank took something last
    is_lane: bool = False
    owner: str | None = None
    after: Run | None = None
    follower: Run | None = None
    active: bool = False
    largest: int = 0
    usual: float = 0.0  # seconds that one batch takes a worker, lately
    turn: int = 0  # counts the leases of all runs: when this one had its last
    fresh: int = 0  # the first step that was never leased
    head: int = 0  # the first step that is not taken
    early: set[int] = field(default_factory=set)  # taken beyond the head
    arrived: dict[int, str] = field(default_factory=dict)  # not taken: which host prepared it
    holders: dict[int, set[str]] = field(default_factory=dict)  # leased, not arrived
    returned: list[int] = field(default_factory=list)  # a heap of steps to lease anew
    deaths: Counter[int] = field(default_factory=Counter)  # of workers at work on a step

    # How far ahead ------------------------------------------------------------------------

    @property
    def taken(self) -> int:
        return self.head + len(self.early)

    @property
    def window(self) -> int:
        """Batches that may be leased or waiting ahead of the rank."""
        if self.after is not None:  # what the run before no longer needs
            before = self.after
            spare = before.window - (before.fresh - before.taken)
            return max(0, spare) if before.fresh == before.steps else 0
        if self.largest == 0:  # of lanes a rank has many
            return 1 if self.is_lane else FIRST_WINDOW
        most = self.shelf.window if self.active else FIRST_WINDOW
        return max(1, min(most, self.shelf.share // self.largest))

    @property
    def _limit(self) -> int:
        """The step that the window ends before."""
        return min(self.steps, self.taken + self.window)

    def next_steps(self) -> Iterator[int]:
        """The steps inside the window to lease next: those that came back, then new ones.

        Each must be leased before the next one is asked for.
        """
        limit = self._limit
        while self.returned:
            if not self._is_missing(self.returned[0]):
                heapq.heappop(self.returned)
            elif self.returned[0] < limit:
                yield self.returned[0]
            else:
                break
        while self.fresh < limit:
            yield self.fresh

    def next_step(self) -> int | None:
        """The first of them."""
        return next(self.next_steps(), None)

    @property
    def end(self) -> int:
        """No step from here on can have been leased, by us or by a dispatcher before us."""
        return min(self.steps, self.taken + LAST_WINDOW)

    def lease(self, step: int, worker: str) -> bool:
        """Note who holds a step; False when it is not wanted, or cannot be."""
        if step >= self.end or self._is_over(step):
            return False
        self._reach(step)
        self.holders.setdefault(step, set()).add(worker)
        return True

    def give_back(self, step: int, worker: str) -> None:
        """A holder will not deliver."""
        holders = self.holders.get(step, set())
        holders.discard(worker)
        if step in self.holders and not holders:
            del self.holders[step]
            heapq.heappush(self.returned, step)

    def beyond_window(self) -> list[int]:
        """The leased steps that the window, which has shrunk, does not hold any more."""
        limit = self._limit
        return [step for step in self.holders if step >= limit]

    def awaited(self, count: int) -> Iterator[int]:
        """The leased steps among the next `count` that the rank will want."""
        return (
            s for s in range(self.head, min(self.fresh, self.head + count)) if s in self.holders
        )

    def _reach(self, step: int) -> None:
        """A new dispatcher hears of steps in any order."""
        for skipped in range(self.fresh, step):
            heapq.heappush(self.returned, skipped)
        self.fresh = max(self.fresh, step + 1)

    def _is_over(self, step: int) -> bool:
        return step < self.head or step in self.arrived or step in self.early

    def _is_missing(self, step: int) -> bool:
        return not self._is_over(step) and step not in self.holders

    # What receivers say -------------------------------------------------------------------

    def arrive(self, step: int, worker: str, size: int) -> bool:
        """A batch has arrived; False when that was known, or cannot be."""
        if step >= self.end or self._is_over(step):
            return False
        self._reach(step)
        self.largest = max(self.largest, size)
        self.arrived[step] = host_of(worker)
        self.holders.pop(step, None)
        return True

    def learn(self, seconds: float) -> None:
        self.usual = seconds if not self.usual else 0.9 * self.usual + 0.1 * seconds

    def take(self, step: int, now: float) -> str | None:
        """The rank has taken a batch; returns which host prepared it, None when that was known."""
        host = self.arrived.pop(step, None)
        if host is None:
            return None
        self.touched = now
        self.early.add(step)
        while self.head in self.early:
            self.early.remove(self.head)
            self.head += 1
        return host

    def set_progress(self, progress: Progress) -> None:
        """Go on from what the receiver knows; leases stay."""
        self.head, self.early = progress.taken, set(progress.early)
        self.active = self.active or self.taken > 0
        self.largest = max(self.largest, progress.largest)
        self.arrived = {step: host_of(worker) for step, worker in progress.arrived.items()}
        self.holders = {s: names for s, names in self.holders.items() if not self._is_over(s)}
        known = [self.fresh, self.head, *(step + 1 for step in [*self.early, *self.arrived])]
        self.fresh = max(known)
        self.returned = [s for s in range(self.head, self.fresh) if self._is_missing(s)]
