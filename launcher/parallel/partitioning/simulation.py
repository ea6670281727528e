"""Many cuts of a chain at once, played by a schedule: seconds of a step, and bytes of a rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Chain, Table
from launcher.partitions.orders import Orders
from launcher.partitions.timeline import shares

Numbers = npt.NDArray[np.float64]
#: A row for each way to cut: where, among the places where there can be a cut, counted from 1.
Ways = npt.NDArray[np.int64]
#: One of them.
Way = tuple[int, ...]

#: Actions that are played at once, in 16 MiB.
_AT_ONCE = 2**21


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A chain that is to run in some orders, rank r with the stages r, r + ranks, and so on."""

    chain: Chain
    orders: Orders

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """The ends of the chain, and the modules between before which it can be cut."""
        return np.flatnonzero(np.isfinite(self.chain.ends))

    @property
    def cuts(self) -> int:
        """Places where there can be a cut."""
        return len(self.places) - 2

    @cached_property
    def times(self) -> tuple[Table, Table, Table]:
        """Of stages between places: forward, backward and sending, in seconds."""
        ends = self.chain.ends
        sending = ends[:, None] + ends[None, :]
        forward, backward, over = map(
            self._between, (self.chain.forward, self.chain.backward, sending)
        )
        return forward, backward, over

    @cached_property
    def sizes(self) -> tuple[Table, Table, Table]:
        """In bytes: what is there always, for each microbatch under way, and in passing."""
        many = self.orders.microbatches
        always = self.chain.lasting(0, many)
        each = self.chain.lasting(1, many) - always
        always, each, passing = map(self._between, (always, each, self.chain.passing))
        return always, each, passing

    def _between(self, table: Table) -> Table:
        return np.asarray(table[np.ix_(self.places, self.places)])

    @cached_property
    def are_stages(self) -> npt.NDArray[np.bool_]:
        numbers = np.arange(len(self.places))
        return np.asarray(numbers[:, None] < numbers[None, :])

    # Seconds --------------------------------------------------------------------------------

    def steps(self, ways: Ways) -> Numbers:
        """Seconds of a step, for each way."""
        rows = max(1, _AT_ONCE // len(self.orders.queue))
        parts = [ways[start : start + rows] for start in range(0, len(ways), rows)]
        return np.concatenate(
            [self._ends(costs_of(self.times, part)).max(axis=0) for part in parts]
        )

    def _ends(self, times: Numbers) -> Numbers:
        """When each action of the queue ends, for each way. The last row is the end of nothing."""
        seconds = {kind: (times @ share).T.copy() for kind, share in shares().items()}
        ends = np.zeros((len(self.orders.queue) + 1, len(times)))
        for place, (action, _, before, arrival) in enumerate(self.orders.queue):
            np.maximum(ends[before], ends[arrival], out=ends[place])
            ends[place] += seconds[action.kind][action.stage]
        return ends

    def slowest(self, times: Numbers) -> Numbers:
        """How often each stage's times are in the actions that a step waits for, one by one."""
        ends, queue, share = self._ends(times[None])[:, 0], self.orders.queue, shares()
        counts = np.zeros_like(times)
        place = int(np.argmax(ends))
        while place >= 0:
            action, _, before, arrival = queue[place]
            counts[action.stage] += share[action.kind]
            place = before if ends[before] >= ends[arrival] else arrival
        return counts

    # Bytes ----------------------------------------------------------------------------------

    def memory(self, ways: Ways) -> Numbers:
        """Bytes of the rank with the most, for each way."""
        sizes = costs_of(self.sizes, ways)
        found = [self._rank(rank, sizes).max(axis=1) for rank in range(self.orders.ranks)]
        return np.asarray(np.max(found, axis=0))

    def _rank(self, rank: int, sizes: Numbers) -> Numbers:
        """Bytes of a rank, whenever most is under way in it. For each way, and each such time."""
        always, each, passing = np.moveaxis(sizes[:, rank :: self.orders.ranks], -1, 0)
        lasting = always.sum(axis=1) + passing.max(axis=1)
        return np.asarray(lasting[:, None] + each @ np.array(self.orders.under_way[rank]).T)

    def fullest(self, sizes: Numbers) -> Numbers:
        """How often each stage's sizes are in the bytes of the rank with the most."""
        ranks = self.orders.ranks
        found = [self._rank(rank, sizes[None])[0] for rank in range(ranks)]
        rank = int(np.argmax([each.max() for each in found]))
        counts = np.zeros_like(sizes)
        counts[rank::ranks, 0] = 1
        counts[rank::ranks, 1] = self.orders.under_way[rank][int(np.argmax(found[rank]))]
        counts[rank + ranks * int(np.argmax(sizes[rank::ranks, 2])), 2] = 1
        return counts

    def fitting(self, cap: float) -> Iterator[npt.NDArray[np.bool_]]:
        """For each stage, whether it would fit if its rank had nothing else."""
        always, each, passing = self.sizes
        for stage in range(self.orders.stages):
            rank, local = stage % self.orders.ranks, stage // self.orders.ranks
            most = max(counts[local] for counts in self.orders.under_way[rank])
            yield always + most * each + passing <= cap


def costs_of(tables: Sequence[Table], ways: Ways) -> Numbers:
    """What the stages of each way cost: by way, stage and table."""
    edge = np.zeros((len(ways), 1), dtype=np.int64)
    ends = np.hstack((edge, ways, edge + len(tables[0]) - 1))
    return np.stack([table[ends[:, :-1], ends[:, 1:]] for table in tables], axis=-1)


def as_rows(ways: Sequence[Way]) -> Ways:
    """Of whole numbers, even where there is nothing to cut."""
    return np.array(ways, dtype=np.int64)
