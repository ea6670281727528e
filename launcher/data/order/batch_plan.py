"""Batch plans: which samples make up which batch, the same on every host and cluster. Pure.

An epoch has an *order* of its samples (`sample_order`). A batch is a range of *positions* in it.
One step of all ranks takes `world * batch_size` positions, the first `batch_size` of them for rank
0. The remainder at the end is divided evenly. Random augmentation is seeded by the position in the
order, and a checkpoint records positions: both stay valid when workers join or leave, and when the
world changes size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.data.order import sample_order
from launcher.data.order.saved_states import ShardPrefix
from launcher.data.order.step_set import Range, StepSet
from launcher.data.order.stream_spec import StreamSpec
from launcher.errors import DataError


@dataclass(frozen=True, kw_only=True)
class ResumePoint:
    """The resume point: where reading begins or continues.

    position: in the epoch's order; all positions before it have been taken, except the `holes`.
    done: steps, counted from here, that this rank alone has already taken (in_order=False).
    length, digest: of the order, when the resume point is within an epoch.
    taken: steps of each rank of an iterable dataset; replaces all the fields above.
    prefix: fingerprint of what this rank has taken of it, "" if unknown. prefixes: of each shard
    whose dataset has a state.
    """

    epoch: int
    taken: int = 0
    position: int = 0
    holes: tuple[Range, ...] = ()
    done: tuple[Range, ...] = ()
    length: int | None = None
    digest: str = ""
    prefix: str = field(default="", compare=False)
    prefixes: Mapping[int, ShardPrefix] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The batches of one rank in one epoch, from a resume point on.

    length: positions in the epoch's order: samples, or the batches of a batch_sampler.
    position, holes, done: as in ResumePoint.
    dataset_length, digest: the length that a sampler was given, and the digest of its order.
    """

    spec: StreamSpec
    length: int
    epoch: int
    rank: int = 0
    world: int = 1
    position: int = 0
    holes: tuple[Range, ...] = ()
    done: tuple[Range, ...] = ()
    dataset_length: int | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(f"rank {self.rank} is not in a world of {self.world}")
        if not 0 <= self.position <= self.length:
            raise DataError(
                f"position {self.position} is outside an epoch of {self.length} samples: the "
                "dataset has changed since the state was saved"
            )
        if self.spec.uneven == "error" and not self.spec.drop_last and self._remainder % self.world:
            raise DataError(
                f"the last {self._remainder} of {self.length} samples cannot be shared evenly by "
                f"{self.world} ranks; choose uneven='pad' or 'drop', or drop_last=True"
            )

    # Counts -------------------------------------------------------------------------------

    @functools.cached_property
    def _stride(self) -> int:
        """Positions that one step of all ranks takes."""
        return self.world * self.spec.share

    @functools.cached_property
    def _left(self) -> int:
        """Positions that no rank has taken."""
        return sum(stop - start for start, stop in self.holes) + self.length - self.position

    @functools.cached_property
    def full_steps(self) -> int:
        """Steps in which every rank takes a whole batch."""
        return self._left // self._stride

    @property
    def _remainder(self) -> int:
        """Positions left over after the full steps."""
        return self._left % self._stride

    @functools.cached_property
    def last_size(self) -> int:
        """Positions per rank in the incomplete last step; 0 when there is none."""
        if self.spec.drop_last:
            return 0
        share, odd = divmod(self._remainder, self.world)
        return share + 1 if odd and self.spec.uneven == "pad" else share

    @property
    def _all_steps(self) -> int:
        return self.full_steps + (self.last_size > 0)

    @functools.cached_property
    def _remaining_steps(self) -> list[int] | range:
        """The remaining steps, counted from the resume point."""
        if not self.done:
            return range(self._all_steps)
        return list(StepSet(self.done).missing(self._all_steps))

    @functools.cached_property
    def steps(self) -> int:
        """Batches of this rank; the same number for every rank."""
        return len(self._remaining_steps)

    @property
    def pads(self) -> int:
        """Positions that repeat samples to fill the last step, over all ranks."""
        return max(0, self.last_size * self.world - self._remainder) if self.last_size else 0

    @property
    def drops(self) -> int:
        """Positions of the epoch that no rank gets."""
        return max(0, self._remainder - self.last_size * self.world)

    @property
    def padded(self) -> list[int]:
        """The positions beyond the end that the pads occupy."""
        return self._positions(range(self._left, self._left + self.pads))

    @property
    def dropped(self) -> list[int]:
        """The positions that no rank gets."""
        return self._positions(range(self._left - self.drops, self._left))

    # Positions and samples ----------------------------------------------------------------

    def positions(self, step: int) -> list[int]:
        """Return the positions of a step's batch in the order; they may exceed the length and wrap.

        Raises DataError for a step outside the epoch.
        """
        if not 0 <= step < self.steps:
            raise DataError(f"step {step} is not in an epoch of {self.steps} steps")
        size = self._size(step)
        first = self._remaining_steps[step] * self._stride + self.rank * size
        return self._positions(range(first, first + size))

    def _size(self, step: int) -> int:
        return self.spec.share if self._remaining_steps[step] < self.full_steps else self.last_size

    def _positions(self, indices: range) -> list[int]:
        """Return the positions of the remaining samples with these indices."""
        if not self.holes:
            return list(range(self.position + indices.start, self.position + indices.stop))
        found, before = [], 0
        for start, stop in self.holes:
            inside = range(max(indices.start, before), min(indices.stop, before + stop - start))
            found += [start + index - before for index in inside]
            before += stop - start
        beyond = range(max(indices.start, before), indices.stop)
        return found + [self.position + index - before for index in beyond]

    @functools.cached_property
    def order(self) -> sample_order.SampleOrder:
        """The epoch's order; raises DataError when the sampler gives a different one here."""
        spec = self.spec
        if not spec.is_sampled:
            return sample_order.SampleOrder(
                sample_order.epoch_order(spec.seed, self.epoch, self.length, spec.shuffle)
            )
        return self._checked(self._sampled(use_cache=True))

    def check_sampler(self) -> None:
        """Call the sampler again; raises DataError when it does not return the same order."""
        if self.spec.is_sampled:
            self._checked(self._sampled(use_cache=False))

    def _sampled(self, *, use_cache: bool) -> sample_order.SampleOrder:
        return sampled(self.spec, self.epoch, self.dataset_length or 0, use_cache=use_cache)

    def _checked(self, order: sample_order.SampleOrder) -> sample_order.SampleOrder:
        if order.digest != self.digest:
            raise DataError(
                f"{self.spec.batch_sampler or self.spec.sampler} returned one order of epoch "
                f"{self.epoch} to rank {self.rank}, and another one here: it must be a pure "
                "function of (length, epoch, seed), the same on every host and at every call"
            )
        return order

    def samples(self, step: int) -> list[tuple[int, int]]:
        """Return (index in the order, index in the dataset) for each sample of a step's batch."""
        return self.samples_at(self.positions(step))

    def samples_at(self, positions: Iterable[int]) -> list[tuple[int, int]]:
        """Return (index in the order, index in the dataset) of the samples at some positions."""
        ids, bounds = self.order.ids, self.order.bounds
        if bounds is None:
            return [(position, int(ids[position % self.length])) for position in positions]
        found: list[tuple[int, int]] = []
        for position in positions:
            rounds, batch = divmod(position, self.length)
            indices = range(int(bounds[batch]), int(bounds[batch + 1]))
            found += [(rounds * len(ids) + index, int(ids[index])) for index in indices]
        return found

    def sample_ids(self, step: int) -> list[int]:
        """Return the dataset's indices for the batch of a step."""
        return [index for _, index in self.samples(step)]

    def samples_in(self, step: int) -> int:
        """Return the number of samples in the batch of a step."""
        if self.spec.batch_sampler is None:
            return self._size(step)
        return self.count(self.positions(step))

    def count(self, positions: Sequence[int]) -> int:
        """Return the number of samples at some positions."""
        if self.spec.batch_sampler is None:
            return len(positions)
        return len(self.samples_at(positions))

    def describe_batch(self, step: int) -> str:
        """Describe the batch of a step for a message, without a call to user code."""
        if self.spec.is_sampled:
            kind, numbers = "positions", self.positions(step)
        else:
            kind, numbers = "samples", self.sample_ids(step)
        text = ", ".join(map(str, numbers[:8]))
        return f"{kind} {text}{', ...' if len(numbers) > 8 else ''}"

    # Resume points ------------------------------------------------------------------------

    def resume_point_after(self, steps: int) -> ResumePoint | None:
        """Return where all ranks resume after `steps` steps of each; None at the epoch's end."""
        if steps >= self.steps:
            return None
        taken = steps * self._stride
        holes = []
        for start, stop in self.holes:
            cut = min(taken, stop - start)
            taken -= cut
            if start + cut < stop:
                holes.append((start + cut, stop))
        return self._resume_point(self.position + taken, tuple(holes), ())

    def resume_point_with(self, done: StepSet) -> ResumePoint | None:
        """Return where this rank resumes after steps done in any order; None at the epoch's end.

        done: the steps, as numbered by `step_in_epoch`.
        """
        if len(done) >= self._all_steps:
            return None
        return self._resume_point(self.position, self.holes, done.ranges)

    def step_in_epoch(self, step: int) -> int:
        """Return a step's number counted from the resume point, including the steps done before."""
        return self._remaining_steps[step]

    def _resume_point(
        self, position: int, holes: tuple[Range, ...], done: tuple[Range, ...]
    ) -> ResumePoint:
        return ResumePoint(
            epoch=self.epoch,
            position=position,
            holes=holes,
            done=done,
            length=self.length,
            digest=self.digest,
        )


@dataclass(frozen=True, kw_only=True)
class DrawnPlan(BatchPlan):
    """A plan with the order that an object of this process has drawn; it cannot be sent."""

    drawn: sample_order.SampleOrder

    def _sampled(self, *, use_cache: bool) -> sample_order.SampleOrder:
        return self.drawn


def check_not_empty(plan: BatchPlan) -> None:
    """Raise DataError for an epoch without a step, unless the stream may be empty."""
    if plan.steps or plan.spec.allow_empty or plan.position or plan.done:
        return
    spec, where = plan.spec, f"so rank {plan.rank} has no batch in epoch {plan.epoch}"
    or_allow = "or give the loader LoaderOptions(allow_empty=True)"
    if plan.dataset_length == 0 or (plan.length == 0 and not spec.is_sampled):
        raise DataError(
            f"the dataset {spec.dataset} is empty: its length is 0, {where}; check where it finds "
            f"its samples, {or_allow}"
        )
    if plan.length == 0:
        raise DataError(
            f"{spec.sampler or spec.batch_sampler} gave no sample of the {plan.dataset_length} of "
            f"{spec.dataset}, {where}; let it return some, {or_allow}"
        )
    raise DataError(
        f"{plan.length} samples of {spec.dataset} make no step of batch_size={spec.batch_size} on "
        f"{plan.world} ranks with drop_last={spec.drop_last} and uneven={spec.uneven!r}, {where}; "
        f"choose a smaller batch_size, drop_last=False and uneven='pad', {or_allow}"
    )


def sampled(
    spec: StreamSpec, epoch: int, dataset_length: int, *, use_cache: bool = True
) -> sample_order.SampleOrder:
    """Return the order of an epoch from the user's function, by default from its cache."""
    order = sample_order.sampled_order
    call = sampler_call(spec, epoch, dataset_length)
    return (order if use_cache else order.__wrapped__)(call, call.function)


def sampler_call(spec: StreamSpec, epoch: int, dataset_length: int) -> sample_order.SamplerCall:
    """Return the call of a stream's sampler or batch_sampler in an epoch."""
    return sample_order.SamplerCall(
        name=str(spec.sampler or spec.batch_sampler),
        what="sampler" if spec.batch_sampler is None else "batch_sampler",
        length=dataset_length,
        epoch=epoch,
        seed=spec.seed,
    )


#: Returns the order of an epoch from an object of this process.
Draw = Callable[[sample_order.SamplerCall], sample_order.SampleOrder]


def make_plan(
    spec: StreamSpec,
    dataset_length: int,
    resume_point: ResumePoint,
    *,
    rank: int,
    world: int,
    draw: Draw | None = None,
) -> BatchPlan:
    """Plan the batches of a rank from a resume point on; calls the stream's sampler if it has one.

    draw: in place of the stream's sampler.

    Raises DataError when the epoch differs from the one that the resume point was saved in.
    """
    if resume_point.taken or spec.shards > 1 or spec.steps is not None:
        raise DataError(
            f"{spec.dataset} is map-style: shards=, steps= and the states of iterable datasets do "
            "not apply to it"
        )
    order = _order_of(spec, resume_point.epoch, dataset_length, draw)
    length = dataset_length if order is None else len(order)
    digest = "" if order is None else order.digest
    if resume_point.length is not None and (resume_point.length, resume_point.digest) != (
        length,
        digest,
    ):
        what = "dataset" if order is None else "sampler's order"
        raise DataError(
            f"the state was saved within epoch {resume_point.epoch} of {resume_point.length} "
            f"samples or batches, which now has {length}: the {what} has changed, so the epoch "
            f"cannot be resumed; set_epoch({resume_point.epoch + 1}) starts the next one"
        )
    make: Callable[..., BatchPlan] = BatchPlan
    if draw is not None and order is not None:
        make = functools.partial(DrawnPlan, drawn=order)
    return make(
        spec=spec,
        length=length,
        epoch=resume_point.epoch,
        rank=rank,
        world=world,
        position=resume_point.position,
        holes=resume_point.holes,
        done=resume_point.done,
        dataset_length=None if order is None else dataset_length,
        digest=digest,
    )


def _order_of(
    spec: StreamSpec, epoch: int, dataset_length: int, draw: Draw | None
) -> sample_order.SampleOrder | None:
    """Return the order that a sampler gives; None for a stream without one."""
    if not spec.is_sampled:
        return None
    if draw is None:
        return sampled(spec, epoch, dataset_length)
    return draw(sampler_call(spec, epoch, dataset_length))
