"""Arithmetic of parallel training: ranks, replicas, stages, batches. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from launcher.errors import ParallelError

_Choice = TypeVar("_Choice", bound=enum.Enum)


class RankPlacement(str, enum.Enum):
    """Order of the ranks: which ones are neighbours, usually on one host.

    The names are those of `placement_strategy` in SageMaker's model-parallel library v1.
    """

    CLUSTER = "cluster"  # the stages of one replica
    SPREAD = "spread"  # the replicas of one stage


@dataclass(frozen=True, kw_only=True)
class ParallelDims:
    """Split of a job's model and batches over its ranks.

    world: number of ranks.
    pipeline: number of ranks that the model is cut for; together they are a replica. The number of
        replicas, `data`, follows.
    placement: the ranks that make up a replica.
    global_batch: samples per optimizer step, over all replicas; None if unknown.
    accumulation: batches that a replica reads per optimizer step.
    microbatches: parts that each of these batches is split into.
    virtual_stages: stages per pipeline rank, assigned round-robin: with four stages on two ranks,
        the first rank has stages 0 and 2.
    shard_degree: number of neighbouring replicas that share the parameters and the optimizer state
        of each stage (FSDP2); 1 for whole replicas. Each still reads its own batches.

    Raises ParallelError that lists every problem.
    """

    world: int
    pipeline: int = 1
    placement: RankPlacement = RankPlacement.CLUSTER
    global_batch: int | None = None
    accumulation: int = 1
    microbatches: int = 1
    virtual_stages: int = 1
    shard_degree: int = 1

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ParallelError("; ".join(problems))

    def _problems(self) -> Iterator[str]:
        counts = [each for each in vars(self) if each != "placement"]
        wrong = [
            f"{name} is {value!r}, and must be a whole number of at least 1"
            for name in counts
            if (value := getattr(self, name)) is not None and not _is_count(value)
        ]
        if wrong:
            yield from wrong
            return
        if self.world % self.pipeline:
            yield (
                f"{self.world} ranks are not divisible by {self.pipeline} pipeline stages: use "
                f"{_nearest(self.world, self.pipeline)} ranks"
            )
            return
        if self.data % self.shard_degree:
            yield (
                f"shard_degree is {self.shard_degree}, which does not divide the {self.data} "
                f"replicas ({self.world} ranks, {self.pipeline} pipeline stages): use "
                f"{_divisors(self.data)}"
            )
        if self.global_batch is not None and self.global_batch % self._parts:
            yield (
                f"global_batch is {self.global_batch}, which is not divisible by {self.data} "
                f"replicas x {self.accumulation} accumulated batches x {self.microbatches} "
                f"microbatches: use {_nearest(self.global_batch, self._parts)}"
            )

    # Sizes ----------------------------------------------------------------------------------

    @property
    def data(self) -> int:
        """Number of replicas of the model."""
        return self.world // self.pipeline

    @property
    def replicate_degree(self) -> int:
        """Number of sets of replicas that each hold all shards."""
        return self.data // self.shard_degree

    @property
    def stages(self) -> int:
        """Number of stages of the model, over all ranks of a replica."""
        return self.pipeline * self.virtual_stages

    @property
    def _parts(self) -> int:
        return self.data * self.accumulation * self.microbatches

    @property
    def batch(self) -> int | None:
        """Samples that a replica reads at once: a loader's batch_size. None if unknown."""
        return self.global_batch and self.global_batch // (self.data * self.accumulation)

    @property
    def microbatch(self) -> int | None:
        """Samples of one microbatch. None if unknown."""
        return self.global_batch and self.global_batch // self._parts

    # Ranks ----------------------------------------------------------------------------------

    def pp_rank(self, rank: int) -> int:
        """Return a rank's position in its replica: its stage, unless it has several."""
        return self._position(rank)[1]

    def dp_rank(self, rank: int) -> int:
        """Return the replica of a rank, which selects its share of the batches."""
        return self._position(rank)[0]

    def stages_of(self, pp_rank: int) -> tuple[int, ...]:
        """Return the stages that a rank of a replica holds."""
        self._check(pp_rank, self.pipeline, "stages")
        return tuple(range(pp_rank, self.stages, self.pipeline))

    def holder(self, stage: int) -> int:
        """Return the rank of a replica, from 0, that holds a stage."""
        self._check(stage, self.stages, "stages")
        return stage % self.pipeline

    def rank_at(self, *, dp_rank: int, pp_rank: int) -> int:
        """Return the rank at a position of a replica."""
        self._check(dp_rank, self.data, "replicas")
        self._check(pp_rank, self.pipeline, "stages")
        if self.placement is RankPlacement.CLUSTER:
            return dp_rank * self.pipeline + pp_rank
        return pp_rank * self.data + dp_rank

    def pp_group(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of a rank's replica, by stage."""
        replica = self.dp_rank(rank)
        return tuple(self.rank_at(dp_rank=replica, pp_rank=each) for each in range(self.pipeline))

    def dp_group(self, rank: int) -> tuple[int, ...]:
        """Return the ranks that hold the same stage, by replica; they exchange gradients."""
        stage = self.pp_rank(rank)
        return tuple(self.rank_at(dp_rank=each, pp_rank=stage) for each in range(self.data))

    @property
    def grid(self) -> tuple[tuple[int, ...], ...]:
        """Ranks by replica, then by stage, as a DeviceMesh of ("dp", "pp") takes them."""
        firsts = (self.rank_at(dp_rank=each, pp_rank=0) for each in range(self.data))
        return tuple(map(self.pp_group, firsts))

    @property
    def shard_grid(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Ranks as a DeviceMesh of ("replicate", "shard", "pp") takes them."""
        firsts = range(0, self.data, self.shard_degree)
        return tuple(self.grid[first : first + self.shard_degree] for first in firsts)

    def _position(self, rank: int) -> tuple[int, int]:
        """Return the replica and the stage of a rank."""
        self._check(rank, self.world, "ranks")
        if self.placement is RankPlacement.CLUSTER:
            return divmod(rank, self.pipeline)
        stage, replica = divmod(rank, self.data)
        return replica, stage

    @staticmethod
    def _check(number: int, count: int, what: str) -> None:
        if not 0 <= number < count:
            raise ParallelError(f"{number} is out of range: the {what} are 0 to {count - 1}")


def parse_choice(kind: type[_Choice], name: _Choice | str, what: str) -> _Choice:
    """Return the member of an enumeration with this value. Raises ParallelError."""
    try:
        return kind(name)
    except ValueError:
        known = " or ".join(repr(each.value) for each in kind)
        raise ParallelError(f"{what} is {name!r}: use {known}") from None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _nearest(number: int, divisor: int) -> str:
    """Return the nearest multiples of a divisor, as text: "8 or 16"."""
    below = number // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)


def _divisors(number: int) -> str:
    """Return the divisors of a number, as text: "1, 2 or 4"."""
    found = [str(each) for each in range(1, number + 1) if number % each == 0]
    return " or ".join(filter(None, (", ".join(found[:-1]), found[-1])))
