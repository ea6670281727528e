"""Assign an iterable dataset's shards to ranks and steps. Pure.

A stream of an iterable dataset has as many *shards* as its loader is given, whatever the cluster
looks like. They are assigned to the ranks round-robin. A rank takes one batch of each of its shards
in turn, and skips those that have ended (`shard_interleaving`); reading all its shards once is a
*pass*. A shard reader reads one shard in one pass, in order; only it can detect the shard's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from launcher.data.order.batch_plan import ResumePoint
from launcher.data.order.saved_states import ShardPrefix
from launcher.data.order.stream_spec import StreamSpec
from launcher.errors import DataError

#: Stands for the unknown number of steps of a shard where a number is needed: more than any reader
#: will take.
ENDLESS = 1 << 53


@dataclass(frozen=True, kw_only=True)
class ShardReaderPlan:
    """The batches of one shard in one pass of an epoch, from batch `first` on.

    prefix: what is known of those before, in a run that resumes.
    """

    spec: StreamSpec
    epoch: int
    shard: int
    pass_index: int = 0
    first: int = 0
    prefix: ShardPrefix = field(default_factory=ShardPrefix, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.shard < self.spec.shards or min(self.pass_index, self.first) < 0:
            raise DataError(f"{self.describe_batch(0)} is not in {self.spec.name}")

    @property
    def steps(self) -> int:
        """Upper bound on the batches; the real number is unknown until the shard ends."""
        return ENDLESS

    @property
    def number(self) -> int:
        """Index of this shard and pass among all of the epoch."""
        return self.shard + self.pass_index * self.spec.shards

    def describe_batch(self, step: int) -> str:
        """Describe a batch for a message."""
        return f"batch {self.first + step} of shard {self.shard} of {self.spec.shards}"


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """The batches of one rank in one epoch of an iterable dataset, from a step on.

    length: samples in the dataset, when it has a `__len__`. first: steps of the epoch that this
    rank has already taken. prefix: their fingerprint, if it is known. prefixes: what is known of
    those of each shard whose dataset has a state.
    """

    spec: StreamSpec
    epoch: int
    length: int | None = None
    rank: int = 0
    world: int = 1
    first: int = 0
    prefix: str = ""
    prefixes: Mapping[int, ShardPrefix] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(f"rank {self.rank} is not in a world of {self.world}")
        if problems := [*_inapplicable(self.spec), *self._wrong_numbers()]:
            raise DataError("\n".join(problems))

    def _wrong_numbers(self) -> Iterator[str]:
        name, count = self.spec.dataset, self.spec.shards
        if count < self.world:
            yield (
                f"{name} is read in shards={count} by {self.world} ranks: give the loader shards= "
                f"of at least {self.world}, best a multiple of it, and one for each data worker"
            )
        if self.world > 1 and self.steps is None:
            yield (
                f"{name} is iterable and has no __len__, and {self.world} ranks must take the same "
                "number of steps: give the loader LoaderOptions(steps=...), the batches of each "
                "rank in an epoch, or the dataset a __len__, its number of samples"
            )
        if self.steps is not None and self.spec.uneven == "drop":
            yield (
                f"uneven='drop' is not possible for {name}: it is iterable, so the number of steps "
                "that all ranks can take is unknown until it ends; give it "
                "LoaderOptions(steps=...) that fit, with uneven='pad' or 'error'"
            )

    @property
    def shards(self) -> range:
        """The shards of this rank."""
        return range(self.rank, self.spec.shards, self.world)

    @property
    def steps(self) -> int | None:
        """Batches of this rank in the whole epoch; None to read until the shards end."""
        if self.spec.steps is not None or self.world == 1:
            return self.spec.steps
        return self.expected_steps

    @property
    def expected_steps(self) -> int | None:
        """The steps of the longest rank, assuming that the dataset's shards are of equal length."""
        if self.spec.steps is not None or self.length is None:
            return self.spec.steps
        batches = [self._batches_of(shard) for shard in range(self.spec.shards)]
        return max(sum(batches[rank :: self.world]) for rank in range(self.world))

    def _batches_of(self, shard: int) -> int:
        assert self.length is not None
        samples = len(range(shard, self.length, self.spec.shards))
        full, rest = divmod(samples, self.spec.batch_size or 1)
        return full + (rest > 0 and not self.spec.drop_last)

    def known_steps(self) -> int:
        """Return the steps of the whole epoch; raises TypeError, as torch does, if unknown."""
        if self.expected_steps is None:
            raise TypeError(
                f"{self.spec.dataset} is iterable and has no __len__, so the loader has none "
                "without LoaderOptions(steps=...)"
            )
        return self.expected_steps

    def reader_plans(self, pass_index: int, first: int) -> list[ShardReaderPlan]:
        """Plan the shards of a pass after `first` of its steps were taken.

        The plans are exact if no shard has ended by then. If one has, the others are further along,
        and their batches between the planned point and the real one have already been taken.
        """
        count = len(self.shards)
        spec = replace(self.spec, in_order=True)  # within a shard, whatever the loader allows
        prefixes = self.prefixes if pass_index == 0 else {}
        return [
            ShardReaderPlan(
                spec=spec,
                epoch=self.epoch,
                shard=shard,
                pass_index=pass_index,
                first=len(range(turn, first, count)),
                prefix=prefixes.get(shard, ShardPrefix()),
            )
            for turn, shard in enumerate(self.shards)
        ]


def plan_shards(
    spec: StreamSpec, length: int | None, resume_point: ResumePoint, *, rank: int, world: int
) -> ShardPlan:
    """Plan the batches of a rank from a resume point on.

    Raises DataError when the resume point is of a map-style dataset.
    """
    if resume_point.position or resume_point.length is not None:
        raise DataError(
            f"{spec.dataset} is iterable, and the state was saved with a map-style dataset"
        )
    return ShardPlan(
        spec=spec,
        length=length,
        epoch=resume_point.epoch,
        rank=rank,
        world=world,
        first=resume_point.taken,
        prefix=resume_point.prefix,
        prefixes=resume_point.prefixes,
    )


def _inapplicable(spec: StreamSpec) -> Iterator[str]:
    """Yield a message for each setting that applies to map-style datasets only."""
    given = {
        "shuffle": spec.shuffle,
        "sampler": spec.sampler is not None,
        "batch_sampler": spec.batch_sampler is not None,
    }
    if names := [name for name, is_given in given.items() if is_given]:
        yield (
            f"{', '.join(names)}: {spec.dataset} is iterable, so its own __iter__ determines the "
            f"order: leave {'them' if names[1:] else 'it'} out and shuffle there, where random, "
            "numpy.random and torch are seeded for each epoch and shard"
        )
    if spec.seeding == "worker":
        yield (
            f"seeding='worker': {spec.dataset} is iterable, and random numbers are seeded once for "
            "each of its shards: leave it out"
        )
    if spec.verify:
        yield (
            f"verify={spec.verify}: {spec.dataset} is iterable, so it is compared whenever one of "
            "its shards is read again, and `launcher check --data` reads it twice: leave it out"
        )
    if spec.on_error == "skip":
        yield (
            f"on_error='skip': {spec.dataset} is iterable, and an iterator that has raised cannot "
            "continue; catch the errors of samples in its __iter__ instead"
        )
