"""A model as a chain of modules, with tables of the costs of every possible stage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from launcher.errors import ParallelError
from launcher.shared import Joint, Link, ModuleCost, StageEnds, Tie, of_stage

#: Indexed by the first module of a stage and the one after its last.
Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """The modules of a model, in the order in which they run, and the link between ranks.

    replicas: of the model, which average their gradients.
    """

    modules: tuple[ModuleCost, ...]
    joints: tuple[Joint, ...] = ()
    link: Link = field(default_factory=Link)
    ties: tuple[Tie, ...] = ()
    replicas: int = 1

    def __post_init__(self) -> None:
        if not self.modules:
            raise ParallelError("a model without modules cannot be cut")

    def __len__(self) -> int:
        return len(self.modules)

    @cached_property
    def forward(self) -> Table:
        """Seconds of a stage's forward pass, for one microbatch."""
        return _sums([each.forward for each in self.modules])

    @cached_property
    def backward(self) -> Table:
        """Seconds of a stage's backward pass, for one microbatch."""
        return _sums([each.backward for each in self.modules])

    @cached_property
    def update(self) -> Table:
        """Seconds of the optimizer's step of a stage."""
        return _sums([each.update for each in self.modules])

    @cached_property
    def ends(self) -> npt.NDArray[np.float64]:
        """Seconds that a cut before each module costs each of its two stages, in both directions.

        Zero at the ends of the chain, and infinite where there can be no cut.
        """
        inside = [
            np.inf
            if each.crossing is None
            else self.link.seconds(each.crossing, each.returning or 0)
            for each in self.modules[1:]
        ]
        return np.array([0.0, *inside, 0.0])

    @cached_property
    def seconds(self) -> Table:
        """Seconds of a stage for one microbatch, forward and backward; infinite for no stage."""
        table = self.forward + self.backward + self.ends[:, None] + self.ends[None, :]
        numbers = np.arange(len(self) + 1)
        return np.where(numbers[:, None] < numbers[None, :], table, np.inf)

    def memory(self, waiting: int, microbatches: int) -> Table:
        """Return the bytes of a stage with `waiting` in-flight microbatches.

        Infinite where there is no stage.
        """
        table = self.lasting(waiting, microbatches) + self.passing
        return np.where(np.isinf(self.seconds), np.inf, table)

    def lasting(self, waiting: int, microbatches: int) -> Table:
        """Return the same bytes without what a module needs only while it runs."""
        over = [(each.crossing or 0, each.returning or 0) for each in self.modules[1:]]
        crossing, returning = np.array([(0.0, 0.0), *over, (0.0, 0.0)]).T
        ends = StageEnds(
            received=crossing[:, None], sent=crossing[None, :], returned=returning[None, :]
        )
        table = of_stage(
            self.held, self.kept, 0.0, ends, waiting=waiting, microbatches=microbatches
        )
        return np.asarray(table)

    def stages(self, places: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the first module of each stage and the one after its last. places: see `Cuts`."""
        yield from zip((0, *places), (*places, len(self)), strict=True)

    @cached_property
    def held(self) -> Table:
        """Bytes that a stage needs however many microbatches are in flight."""
        joined = [(each.first, each.second, each.held) for each in self.joints]
        return _sums([each.held for each in self.modules]) + self._together(joined)

    @cached_property
    def kept(self) -> Table:
        """Bytes that a stage keeps for each in-flight microbatch, besides its inputs."""
        joined = [(each.first, each.second, each.kept) for each in self.joints]
        return _sums([each.kept for each in self.modules]) + self._together(joined)

    @cached_property
    def gradients(self) -> Table:
        """Bytes of a stage's gradients, those of tied parameters once."""
        pairs = [
            (*pair, -tie.gradients) for tie in self.ties for pair in itertools.pairwise(tie.modules)
        ]
        return _sums([each.gradients for each in self.modules]) + self._together(pairs)

    def _together(self, joined: Sequence[tuple[int, int, int]]) -> Table:
        """Return what stages need in addition when they hold both modules of a pair."""
        size = len(self) + 1
        table = np.zeros((size, size))
        for first, second, count in joined:
            table[first, second + 1] += count
        # A stage contains the pairs of all stages that begin later and end earlier.
        return np.asarray(table[::-1].cumsum(axis=0)[::-1].cumsum(axis=1))

    @cached_property
    def passing(self) -> Table:
        """The most bytes that a module of a stage needs while it runs."""
        values = np.array([each.passing for each in self.modules], dtype=np.float64)
        table = np.zeros((len(self) + 1, len(self) + 1))
        for first in range(len(self)):
            table[first, first + 1 :] = np.maximum.accumulate(values[first:])
        return table


def _sums(values: Sequence[float]) -> Table:
    before = np.concatenate(([0.0], np.cumsum(np.array(values, dtype=np.float64))))
    return np.asarray(before[None, :] - before[:, None])
