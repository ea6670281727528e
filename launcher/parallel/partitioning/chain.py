"""What a model costs, as a chain of modules, and what a stage of it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from launcher.errors import ParallelError

#: By the first module of a stage and the one after its last: costs of all stages there could be.
Table = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Module:
    """One module, which is not cut. Seconds are of one microbatch, forward and backward.

    held: bytes of parameters, gradients and the optimizer's state. kept: bytes of activations that
    wait for the backward pass of one microbatch. passing: bytes that are needed only while it runs.
    cut: seconds that a cut before it takes in each of both stages, for what goes over; inf where
    there can be none. Of the first module it says nothing.
    """

    name: str
    seconds: float
    held: int = 0
    kept: int = 0
    passing: int = 0
    cut: float = 0.0

    def __post_init__(self) -> None:
        for what in ("seconds", "held", "kept", "passing", "cut"):
            value = getattr(self, what)
            if not value >= 0 or (what != "cut" and math.isinf(value)):
                raise ParallelError(f"{self.name}: {what} is {value!r}, and must be 0 or more")


@dataclass(frozen=True)
class Chain:
    """The modules of a model, in the order in which they run."""

    modules: tuple[Module, ...]

    def __post_init__(self) -> None:
        if not self.modules:
            raise ParallelError("a model without modules cannot be cut")

    def __len__(self) -> int:
        return len(self.modules)

    @cached_property
    def seconds(self) -> Table:
        """Of a stage, for one microbatch: what its modules take, and what goes over its ends.

        Infinite where there is no stage.
        """
        cuts = [0.0, *(each.cut for each in self.modules[1:]), 0.0]
        ends = np.array(cuts)
        table = self._sums("seconds") + ends[:, None] + ends[None, :]
        return np.where(self._is_stage, table, np.inf)

    def memory(self, waiting: int) -> Table:
        """Bytes of a stage with so many microbatches under way; infinite where there is none."""
        table = self._sums("held") + waiting * self._sums("kept") + self._greatest_passing
        return np.where(np.isinf(self.seconds), np.inf, table)

    def stages(self, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The first module of each stage, and the one after its last. cuts: see `Partition`."""
        yield from zip((0, *cuts), (*cuts, len(self)), strict=True)

    def _sums(self, what: str) -> Table:
        values = np.array([getattr(each, what) for each in self.modules], dtype=np.float64)
        before = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray(before[None, :] - before[:, None])

    @cached_property
    def _is_stage(self) -> npt.NDArray[np.bool_]:
        numbers = np.arange(len(self) + 1)
        return np.asarray(numbers[:, None] < numbers[None, :])

    @cached_property
    def _greatest_passing(self) -> Table:
        values = np.array([each.passing for each in self.modules], dtype=np.float64)
        table = np.zeros((len(self) + 1, len(self) + 1))
        for first in range(len(self)):
            table[first, first + 1 :] = np.maximum.accumulate(values[first:])
        return table
