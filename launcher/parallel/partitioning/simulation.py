"""Simulate many cuts at once: seconds per step and bytes per rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Chain, Table
from launcher.shared import MESSAGES, Orders, Tie, shares, tie_seconds

Numbers = npt.NDArray[np.float64]
#: Each row is one set of cuts: indices, from 1, of the places where there can be a cut.
Ways = npt.NDArray[np.int64]
#: One such row.
Way = tuple[int, ...]

#: Actions that are simulated at once, in 16 MiB.
_AT_ONCE = 2**21


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A chain and its orders of actions; rank r holds the stages r, r + ranks, and so on."""

    chain: Chain
    orders: Orders

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """The ends of the chain, and the modules between before which it can be cut."""
        return np.flatnonzero(np.isfinite(self.chain.ends))

    @property
    def cuts(self) -> int:
        """Number of places where there can be a cut."""
        return len(self.places) - 2

    @cached_property
    def times(self) -> tuple[Table, Table, Table, Table]:
        """Seconds of stages between places: forward, backward, sending, and once at the end.

        The last ones are those of a rank's exchanges, at least, and of its optimizer.
        """
        ends = self.chain.ends
        sending = ends[:, None] + ends[None, :]
        finish = self._exchange + self._tied
        forward, backward, over, last = map(
            self._between, (self.chain.forward, self.chain.backward, sending, finish)
        )
        return forward, backward, over, last

    @cached_property
    def _exchange(self) -> Table:
        """Seconds in which stages average their gradients over the replicas, and are updated."""
        link, replicas, table = self.chain.link, self.chain.replicas, self.chain.gradients
        messages = link.all_reduce(0, replicas, MESSAGES / self.orders.virtual_stages)
        averaged = np.where(table > 0, messages + link.all_reduce(1, replicas, 0) * table, 0.0)
        return averaged + self.chain.update

    @cached_property
    def _tied(self) -> Table:
        """Seconds in which a stage adds the gradients of tied parameters with one other stage.

        Zero with several stages on each rank, of which others may hold the rest.
        """
        size = len(self.chain) + 1
        numbers, table = np.arange(size), np.zeros((size, size))
        if self.orders.virtual_stages > 1:
            return table
        for tie in self.chain.ties:
            before = np.searchsorted(tie.modules, numbers)
            uses = before[None, :] - before[:, None]
            is_split = (uses > 0) & (uses < len(tie.modules))
            table += np.where(is_split, tie_seconds(self.chain.link, tie, 2), 0.0)
        return table

    @cached_property
    def sizes(self) -> tuple[Table, Table, Table]:
        """Bytes of stages: permanent, per in-flight microbatch, and while a module runs."""
        many = self.orders.microbatches
        always = self.chain.lasting(0, many)
        each = self.chain.lasting(1, many) - always
        always, each, passing = map(self._between, (always, each, self.chain.passing))
        return always, each, passing

    def _between(self, table: Table) -> Table:
        return np.asarray(table[np.ix_(self.places, self.places)])

    @cached_property
    def are_stages(self) -> npt.NDArray[np.bool_]:
        """True where a range between places is a stage: its end is after its start."""
        numbers = np.arange(len(self.places))
        return np.asarray(numbers[:, None] < numbers[None, :])

    # Seconds --------------------------------------------------------------------------------

    def steps(self, ways: Ways) -> Numbers:
        """Return the seconds of a step, for each row of cuts."""
        rows = max(1, _AT_ONCE // len(self.orders.queue))
        parts = [ways[start : start + rows] for start in range(0, len(ways), rows)]
        return np.concatenate([self._steps(part) for part in parts])

    def _steps(self, ways: Ways) -> Numbers:
        times = costs_of(self.times, ways)
        now = self._ends(times)[list(self._last)]
        for tie in self.chain.ties:
            self._wait(now, ways, tie)
        exchange = costs_of((self._between(self._exchange),), ways)[..., 0]
        return np.asarray((now + self._of_ranks(exchange)).max(axis=0))

    def _wait(self, now: Numbers, ways: Ways, tie: Tie) -> None:
        """Let the ranks that hold tied parameters add their gradients. now: by rank and row."""
        stages = [(self.places[ways] <= number).sum(axis=1) for number in tie.modules]
        holds = np.zeros(now.shape, dtype=np.bool_)
        for stage in stages:
            holds[stage % self.orders.ranks, np.arange(len(ways))] = True
        seconds = [tie_seconds(self.chain.link, tie, 1 + more) for more in range(len(now))]
        counts = holds.sum(axis=0)
        together = np.where(holds, now, 0.0).max(axis=0) + np.array(seconds)[counts - 1]
        np.copyto(now, together[None, :], where=holds & (counts > 1))

    def _of_ranks(self, seconds: Numbers) -> Numbers:
        """Return the sums over the stages of each rank. seconds: by row and stage."""
        ranks = range(self.orders.ranks)
        return np.stack([seconds[:, rank :: len(ranks)].sum(axis=1) for rank in ranks])

    @cached_property
    def _last(self) -> tuple[int, ...]:
        """The place in the queue of each rank's last action."""
        places = {turn.rank: place for place, turn in enumerate(self.orders.queue)}
        return tuple(places[rank] for rank in range(self.orders.ranks))

    def _ends(self, times: Numbers) -> Numbers:
        """Return when each action of the queue ends, by row of cuts; the last row is all zeros."""
        seconds = {kind: (times[..., :3] @ share).T.copy() for kind, share in shares().items()}
        ends = np.zeros((len(self.orders.queue) + 1, len(times)))
        for place, (action, _, before, arrival) in enumerate(self.orders.queue):
            np.maximum(ends[before], ends[arrival], out=ends[place])
            ends[place] += seconds[action.kind][action.stage]
        return ends

    def slowest(self, times: Numbers) -> Numbers:
        """Return how often each stage's times are in the critical path of a step."""
        ends, queue, share = self._ends(times[None])[:, 0], self.orders.queue, shares()
        counts = np.zeros_like(times)
        done = ends[list(self._last)] + self._of_ranks(times[None, :, 3])[:, 0]
        rank = int(np.argmax(done))
        counts[rank :: self.orders.ranks, 3] = 1
        place = self._last[rank]
        while place >= 0:
            action, _, before, arrival = queue[place]
            counts[action.stage, :3] += share[action.kind]
            place = before if ends[before] >= ends[arrival] else arrival
        return counts

    # Bytes ----------------------------------------------------------------------------------

    def memory(self, ways: Ways) -> Numbers:
        """Return the bytes of the rank with the most, for each row of cuts."""
        sizes = costs_of(self.sizes, ways)
        found = [self._rank(rank, sizes).max(axis=1) for rank in range(self.orders.ranks)]
        return np.asarray(np.max(found, axis=0))

    def _rank(self, rank: int, sizes: Numbers) -> Numbers:
        """Return the bytes of a rank, by row of cuts and by moment with most in-flight work."""
        always, each, passing = np.moveaxis(sizes[:, rank :: self.orders.ranks], -1, 0)
        lasting = always.sum(axis=1) + passing.max(axis=1)
        return np.asarray(lasting[:, None] + each @ np.array(self.orders.under_way[rank]).T)

    def fullest(self, sizes: Numbers) -> Numbers:
        """Return how often each stage's sizes are in the bytes of the rank with the most."""
        ranks = self.orders.ranks
        found = [self._rank(rank, sizes[None])[0] for rank in range(ranks)]
        rank = int(np.argmax([each.max() for each in found]))
        counts = np.zeros_like(sizes)
        counts[rank::ranks, 0] = 1
        counts[rank::ranks, 1] = self.orders.under_way[rank][int(np.argmax(found[rank]))]
        counts[rank + ranks * int(np.argmax(sizes[rank::ranks, 2])), 2] = 1
        return counts

    def fitting(self, cap: float) -> Iterator[npt.NDArray[np.bool_]]:
        """Yield for each stage which ranges would fit if its rank held nothing else."""
        always, each, passing = self.sizes
        for stage in range(self.orders.stages):
            rank, local = stage % self.orders.ranks, stage // self.orders.ranks
            most = max(counts[local] for counts in self.orders.under_way[rank])
            yield always + most * each + passing <= cap


def costs_of(tables: Sequence[Table], ways: Ways) -> Numbers:
    """Return the costs of the stages of each row of cuts: by row, stage and table."""
    edge = np.zeros((len(ways), 1), dtype=np.int64)
    ends = np.hstack((edge, ways, edge + len(tables[0]) - 1))
    return np.stack([table[ends[:, :-1], ends[:, 1:]] for table in tables], axis=-1)


def as_rows(ways: Sequence[Way]) -> Ways:
    """Return cuts as rows of integers, even where there is nothing to cut."""
    return np.array(ways, dtype=np.int64)
