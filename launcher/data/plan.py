"""Which samples make up which batch: a pure function, the same on every host and in every cluster.

An epoch has an *order*: a permutation of the sample ids, from (seed, epoch, length). A batch is a
range of *positions* in that order. One step of all ranks takes `world * batch_size` positions, the
first `batch_size` of them for rank 0. What is left over at the end is shared out evenly. A position
in the order is also what a random augmentation is seeded by, and what a checkpoint remembers: both
stay true when workers come and go, and when the world changes size.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from launcher.errors import DataError

Uneven = Literal["pad", "drop", "error"]


@dataclass(frozen=True, kw_only=True)
class StreamSpec:
    """What all ranks must agree on when they read a stream of batches.

    name: of the stream; by default that of its dataset. dataset: a reference, "module:function".
    batch_size: samples per rank and step.
    drop_last: leave out the last, incomplete step of an epoch.
    uneven: what to do when an incomplete last step does not divide among the ranks: "pad" repeats
        samples from the start of the order, "drop" leaves samples out, "error" refuses.
    shards, steps: of an iterable dataset (`launcher.data.shards`): in how many parts it is read,
        and the batches of each rank in an epoch.
    """

    name: str
    dataset: str
    batch_size: int
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    uneven: Uneven = "pad"
    shards: int = 1
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise DataError(f"batch_size is {self.batch_size}; it must be at least 1")
        if self.uneven not in get_args(Uneven):
            raise DataError(f"uneven is {self.uneven!r}; it must be one of {get_args(Uneven)}")
        if self.shards < 1:
            raise DataError(f"shards is {self.shards}; it must be at least 1")
        if self.steps is not None and self.steps < 1:
            raise DataError(f"steps is {self.steps}; it must be at least 1")

    def differences(self, other: StreamSpec) -> dict[str, tuple[Any, Any]]:
        """The fields in which two specifications differ."""
        return {
            name: (value, getattr(other, name))
            for name, value in vars(self).items()
            if value != getattr(other, name)
        }


@functools.lru_cache(maxsize=4)
def epoch_order(seed: int, epoch: int, length: int, shuffle: bool) -> npt.NDArray[np.int64]:
    """The order of the sample ids in one epoch, shape (length,)."""
    if not shuffle:
        order = np.arange(length, dtype=np.int64)
    else:
        # RandomState's streams are frozen for all versions of numpy (NEP 19); Generator's are not.
        state = np.random.RandomState(
            [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, epoch & 0xFFFFFFFF]
        )
        order = state.permutation(length).astype(np.int64)
    order.flags.writeable = False
    return order


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The batches of one rank in one epoch, from a position on.

    length: samples in the dataset. position: samples of this epoch that all ranks together have
    taken already.
    """

    spec: StreamSpec
    length: int
    epoch: int
    rank: int = 0
    world: int = 1
    position: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(f"rank {self.rank} is not in a world of {self.world}")
        if not 0 <= self.position <= self.length:
            raise DataError(
                f"position {self.position} is outside an epoch of {self.length} samples: the "
                "dataset has changed since the state was saved"
            )
        if self.spec.uneven == "error" and not self.spec.drop_last and self._rest % self.world:
            raise DataError(
                f"the last {self._rest} of {self.length} samples cannot be shared evenly by "
                f"{self.world} ranks; choose uneven='pad' or 'drop', or drop_last=True"
            )

    @property
    def _stride(self) -> int:
        """Positions that one step of all ranks takes."""
        return self.world * self.spec.batch_size

    @property
    def full_steps(self) -> int:
        return (self.length - self.position) // self._stride

    @property
    def _rest(self) -> int:
        """Samples left over after the full steps."""
        return (self.length - self.position) % self._stride

    @property
    def last_size(self) -> int:
        """Samples per rank in the incomplete last step; 0 when there is none."""
        if self.spec.drop_last:
            return 0
        share, odd = divmod(self._rest, self.world)
        return share + 1 if odd and self.spec.uneven == "pad" else share

    @property
    def steps(self) -> int:
        """Batches of this rank; the same for every rank."""
        return self.full_steps + (self.last_size > 0)

    @property
    def pads(self) -> int:
        """Samples that occur once more than they should, over all ranks."""
        return max(0, self.last_size * self.world - self._rest) if self.last_size else 0

    @property
    def drops(self) -> int:
        """Samples of the epoch that no rank gets."""
        return max(0, self._rest - self.last_size * self.world)

    def positions(self, step: int) -> range:
        """Where the batch of a step stands in the order; beyond the length it wraps around."""
        if not 0 <= step < self.steps:
            raise DataError(f"step {step} is not in an epoch of {self.steps} steps")
        first = self.position + step * self._stride
        size = self.spec.batch_size if step < self.full_steps else self.last_size
        return range(first + self.rank * size, first + (self.rank + 1) * size)

    def sample_ids(self, step: int) -> list[int]:
        """The dataset's indices for the batch of a step."""
        order = epoch_order(self.spec.seed, self.epoch, self.length, self.spec.shuffle)
        return [int(order[position % self.length]) for position in self.positions(step)]

    def position_after(self, step: int) -> int | None:
        """The position to resume from after a step of all ranks; None when the epoch is over."""
        if step + 1 >= self.steps:
            return None
        return self.position + (step + 1) * self._stride
