"""The data loader: the training script's interface to the data service."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import WeakMethod, finalize

from launcher.data.batches import Assembly
from launcher.data.engines import BatchSource
from launcher.data.epoch_recorder import EpochRecorder, first_epochs
from launcher.data.given_code import check_sendable, read_dataset, read_functions, whole
from launcher.data.gradient_state import EpochEnd, entered
from launcher.data.loader_attributes import LoaderAttributes
from launcher.data.loader_options import LoaderOptions, refuse_options
from launcher.data.loader_state import State, read_state, write_state
from launcher.data.memory import open_pinning
from launcher.data.metrics import StreamCounters, stream_totals
from launcher.data.order import (
    BatchPlan,
    Description,
    GivenObjects,
    ResumePoint,
    ShardPlan,
    StreamSpec,
    check_not_empty,
    make_plan,
    plan_shards,
)
from launcher.data.sources import LocalSource, open_source
from launcher.data.torch_arguments import FollowedGenerator, TorchArguments
from launcher.data.torch_samplers import FollowedEpoch
from launcher.errors import DataError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault  # nobody must name the type

    #: What a batch is: `DataLoader[tuple[Tensor, Tensor]]`.
    T_co = WithDefault("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)


class DataLoader(LoaderAttributes, Generic[T_co]):
    """Batches of a dataset, prepared on the data group when the job has one, else in-process.

    The batches are the same, bit for bit and in the same order, in both cases and with any number
    of data hosts. Each `for` over the loader reads one epoch and the next `for` reads the next
    one. With `shuffle`, each epoch has its own order, a pure function of (seed, epoch, length).
    Random augmentation in the dataset may use `random`, `numpy.random` and `torch`, which are
    seeded for each sample.

    >>> loader = DataLoader("pipeline:train_set", batch_size=64, shuffle=True)   # doctest: +SKIP
    >>> for images, labels in loader:                                            # doctest: +SKIP
    ...     train_step(images, labels)

    dataset: "module:function", a function or class beside the script that returns a dataset,
        map-style or iterable; or the function or class itself. A dataset object is read in this
        process, and refused where a data group prepares the data.
    dataset_args: the arguments of that function or class, by name: JSON values, and paths as
        `launcher.data.channel("digits", "train")`.
    batch_size: samples per rank and step; None for samples one by one, as the dataset gives them.
    drop_last: leave out an incomplete last step.
    sampler: "module:function", or the function itself, a pure function of (length, epoch, seed)
        that returns the ids of an epoch in order, which hosts check; or torch's
        SequentialSampler, RandomSampler or DistributedSampler. Another sampler object, or a list
        of ids, is iterated in this process, and refused where a data group prepares the data.
    batch_sampler: the same for whole batches of ids, which are dealt to the ranks in turn.
    collate_fn: "module:function", or the function itself, of a list of samples that returns the
        batch. Names must be in the dataset's module.
    epochs: total number of epochs, so that none is prepared needlessly; None (default): unknown.
    shards: for iterable datasets only: in how many parts the dataset is read (default 1), each by
        one worker at a time; at least one for each rank.
    options: what fewer scripts need, as a `LoaderOptions`.
    in_order: False returns batches as they become ready, so that a slow sample delays only its
        own batch; those of an iterable dataset come in order nevertheless.
    name: of the stream; needed when two loaders read one dataset in different ways.
    tensors: True converts arrays to torch tensors, False converts tensors to arrays. By default,
        the result of a collate_fn is unchanged, and without one arrays become tensors if torch
        has been imported.
    pin_memory: page-locked batches, for `to("cuda", non_blocking=True)`. A copy must be on the
        current stream, or awaited by it, when the next batch is requested. Without CUDA, only a
        warning.
    workers: processes to fork beside the script, for map-style datasets where no data group
        prepares the batches; the batches are the same.
    allow_pickle: pickle what batches hold and has no codec; whoever knows the job's token can then
        run code in this process.
    timeout: seconds to wait for a batch of the data group; 0 (default): as long as it exists.
    generator: its seed is the seed.
    worker_init_fn: called with the shard's number before a dataset is read, as in torch's workers;
        a map-style dataset is shard 0 of 1.
    num_workers, prefetch_factor, persistent_workers, pin_memory_device: as in torch, but hints: the
        job's `data_service` sets the workers and what they prepare ahead.

    Raises DataError for wrong arguments, SampleError when the dataset raises, and
    DataServiceUnavailable when the job's data group cannot be reached.
    """

    @refuse_options
    def __init__(
        self,
        dataset: object,
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        *,
        dataset_args: Mapping[str, object] | None = None,
        seed: int = 0,
        drop_last: bool = False,
        sampler: object = None,
        batch_sampler: object = None,
        collate_fn: str | Callable[[Any], Any] | None = None,
        epochs: int | None = None,
        shards: int = 1,
        in_order: bool = True,
        name: str | None = None,
        tensors: bool | None = None,
        pin_memory: bool = False,
        workers: int = 0,
        allow_pickle: bool = False,
        options: LoaderOptions | None = None,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        timeout: float = 0,
        generator: object = None,
        worker_init_fn: str | Callable[[int], object] | None = None,
        pin_memory_device: str = "",
        multiprocessing_context: object = None,
    ) -> None:
        as_torch = TorchArguments(
            num_workers=num_workers,
            workers=workers,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            timeout=timeout,
            generator=generator,
            pin_memory_device=pin_memory_device,
            multiprocessing_context=multiprocessing_context,
        )
        given = self._code = read_dataset(dataset, dataset_args)
        functions = read_functions(
            given,
            {
                "sampler": sampler,
                "batch_sampler": batch_sampler,
                "collate_fn": collate_fn,
                "worker_init_fn": worker_init_fn,
            },
            collates=batch_size is not None,
        )
        self._sampler = functions.sampler
        self._options = options = options or LoaderOptions()
        self._shuffle, self._seed, self._tensors = bool(shuffle), seed, tensors
        self._as_torch = as_torch
        self._spec = StreamSpec(
            name=name or given.name,
            dataset=given.reference,
            batch_size=None if batch_size is None else whole("batch_size", batch_size),
            drop_last=drop_last,
            in_order=in_order,
            on_error=options.on_error,
            seeding=options.seeding,
            on_nondeterminism=options.on_nondeterminism,
            verify=options.verify,
            shards=whole("shards", shards),
            steps=None if options.steps is None else whole("steps", options.steps),
            allow_empty=options.allow_empty,
            allow_pickle=bool(allow_pickle),
            **self._order(),
            **functions.references,
        )
        check_sendable(given, self._sampler)
        self._given = GivenObjects(dataset=given.instance, functions=functions.objects)
        if epochs is not None and whole("epochs", epochs) < 1:
            raise DataError(f"epochs is {epochs}; it must be at least 1, or None when not known")
        self._epochs = epochs
        self._rank, self._world = self._options.share(self._sampler)
        self._assembly = self._new_assembly()
        self._pins, self._pinning = bool(pin_memory), open_pinning(pin_memory)
        self._process, self._forks = os.getpid(), _forks
        self._source: BatchSource | None = None
        self._counts_held = False
        self._dataset: Description | None = None
        # Weak, so that a loader that goes out of scope is closed at once: until it is closed, the
        # data hosts continue to prepare its next epoch.
        report = WeakMethod(self._report)
        self._counters = StreamCounters(
            stream_totals(self._spec.name), lambda figures: (send := report()) and send(figures)
        )
        self._next = ResumePoint(epoch=0)  # where the next `for` starts
        self._start = self._next  # where the latest one started
        self._epoch_is_set = False  # by the script, or with a state, for the next `for`
        self._key = object()
        self._followed_epoch = FollowedEpoch(self._sampler)
        self._followed_generator = FollowedGenerator(self._order_generator)
        self._latest: EpochRecorder | None = None
        self._batches: Generator[Any, None, None] | None = None  # of `_latest`

    def __len__(self) -> int:
        """Return this rank's steps in the whole of the current epoch, or else of the next one.

        Raises TypeError for an iterable dataset without a length, when its options have no steps.
        """
        self._follow_objects()
        plan = self._plan(ResumePoint(epoch=self._resume_point.epoch))
        return plan.known_steps() if isinstance(plan, ShardPlan) else plan.steps

    @property
    def samples(self) -> int:
        """Samples of an epoch over all ranks, each counted once; raises DataError if iterable."""
        self._follow_objects()
        plan = self._plan(ResumePoint(epoch=self._resume_point.epoch))
        if isinstance(plan, ShardPlan):
            raise DataError(f"{self._spec.dataset} is iterable: its samples cannot be counted")
        return plan.length

    def __iter__(self) -> Iterator[T_co]:
        self._follow_objects()
        if (epoch := self._followed_epoch.newly_set()) is not None:
            self.set_epoch(epoch)
        if (epoch := self._followed_generator.epoch_set(self._order_generator)) is not None:
            self._next, self._latest = ResumePoint(epoch=epoch), None
        if self._sampler.drawn is not None:
            self._sampler.drawn.redraw()
        if self._latest is None or self._latest.has_begun:  # else its epoch has not been read
            self._start = self._next
        plan = self._plan(self._start)
        self._followed_generator.begin(self._order_generator, plan.epoch)
        self._latest = EpochRecorder(plan, self._counters)
        self._warn_of_first_epochs(plan)
        self._begin(plan)
        return self._read(self._latest)

    def set_epoch(self, epoch: int) -> None:
        """Make the next `for` read this epoch.

        It starts at the beginning of the epoch, or at the resume point if a state of this epoch was
        loaded. Raises DataError for a number that is negative or not whole.
        """
        epoch = whole("an epoch", epoch)
        if epoch != self._next.epoch:
            self._next = ResumePoint(epoch=epoch)
        self._latest, self._epoch_is_set = None, True
        self._followed_epoch.skip()
        self._followed_generator.skip(self._order_generator)

    def state_dict(self) -> State:
        """Return the resume point after the batch that was returned last, in a few hundred bytes.

        States of an iterable dataset's shards, up to 512 KiB of each, come beside it.
        With in_order=False it covers this rank alone; to resume with another world size, give
        `load_state_dict` the states of all ranks, as a list.
        """
        return write_state(self._spec, self._resume_point, rank=self._rank, world=self._world)

    def load_state_dict(self, state: Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
        """Make the next `for` resume where the state was taken.

        The number of ranks and the batch size may differ from then; the dataset, its order and the
        seed may not. Raises DataError.
        """
        self._next = read_state(state, self._spec, rank=self._rank, world=self._world)
        self._latest, self._epoch_is_set = None, True
        self._followed_epoch.skip()
        self._followed_generator.skip(self._order_generator)

    def __reduce__(self) -> NoReturn:
        raise DataError(
            f"a loader (of {self._spec.dataset}) cannot be pickled or copied, because it is the "
            "position of one rank and one process in a stream: make a DataLoader there, and send "
            "it this one's state_dict()"
        )

    # ---------------------------------------------------------------------------------------

    def _warn_of_first_epochs(self, plan: BatchPlan | ShardPlan) -> None:
        """Warn, once, if each epoch has a loader of its own, which reads the first epoch."""
        spec = plan.spec
        is_set, self._epoch_is_set = self._epoch_is_set, False
        follows_epoch = spec.shuffle or spec.is_sampled or isinstance(plan, ShardPlan)
        if first_epochs.begin(plan, self._key, is_set=is_set) and follows_epoch:
            warnings.warn(
                f"another loader of {spec.name} begins epoch 0: its order and random numbers are "
                "those of the one before; make the loader once, before the loop over epochs, or "
                "write loader.set_epoch(epoch) before each `for`, set_epoch(0) where this is meant",
                stacklevel=3,
            )

    def _order(self) -> dict[str, Any]:
        """Return the settings of the stream that follow from the sampler and the generator."""
        return self._sampler.settings(
            shuffle=self._shuffle,
            seed=self._as_torch.seed(self._seed),
            uneven=self._options.uneven,
        )

    def _new_assembly(self) -> Assembly:
        """Return what makes the script's batches."""
        tensors = self._tensors
        if tensors is None and self._spec.collate_fn is None:
            tensors = "torch" in sys.modules
        types, allow_pickle = tuple(self._options.types), self._spec.allow_pickle
        return Assembly(tensors=tensors, types=types, allow_pickle=allow_pickle)

    @property
    def _order_generator(self) -> Any:
        """The torch.Generator whose seed is the order's, if there is one."""
        generator = self._sampler.generator or self.generator
        return generator if hasattr(generator, "get_state") else None

    def _follow_objects(self) -> None:
        """Take over what the script has changed in the sampler and the generator that it gave."""
        self._sampler = self._sampler.reread()
        self._rank, self._world = self._options.share(self._sampler)
        if any(getattr(self._spec, name) != value for name, value in self._order().items()):
            self._spec = replace(self._spec, **self._order())

    def _assign(self, name: str, value: Any) -> None:
        """Take over an argument of torch's loader for the epochs that begin from now on."""
        if name in ("collate_fn", "worker_init_fn"):
            self._assign_function(name, value)
        elif name == "in_order":
            self._spec = replace(self._spec, in_order=bool(value))
        elif name == "pin_memory":
            self._assign_pinning(bool(value))
        else:
            self._as_torch = replace(self._as_torch, **{name: value})
            if self._source is not None and hasattr(self._source, "timeout"):
                self._source.timeout = self._as_torch.timeout

    def _assign_function(self, name: str, function: object) -> None:
        functions = read_functions(self._code, {name: function}, collates=self._spec.collates)
        self._spec = replace(self._spec, **functions.references)
        others = {each: code for each, code in self._given.functions.items() if each != name}
        self._given = replace(self._given, functions={**others, **functions.objects})
        self._assembly = self._new_assembly()
        if isinstance(self._source, LocalSource):
            self._source.give(self._given)

    def _assign_pinning(self, wanted: bool) -> None:
        if wanted == self.pin_memory:
            return
        if self._source is not None:
            raise DataError(
                f"pin_memory={wanted} is assigned to the loader of {self._spec.name}, whose memory "
                "has been allocated: assign it before the loader is read first"
            )
        self._pins, self._pinning = wanted, open_pinning(wanted)

    @property
    def _resume_point(self) -> ResumePoint:
        """The point to resume from now."""
        return (self._latest and self._latest.progress.resume_point) or self._next

    def _plan(self, resume_point: ResumePoint) -> BatchPlan | ShardPlan:
        dataset = self._described()
        length, rank, world = dataset.length, self._rank, self._world
        if dataset.iterable:
            return plan_shards(self._spec, length, resume_point, rank=rank, world=world)
        assert length is not None  # map-style datasets have a length
        self._sampler.check_length(self._spec.dataset, length)
        draw = self._sampler.drawn
        plan = make_plan(self._spec, length, resume_point, rank=rank, world=world, draw=draw)
        check_not_empty(plan)
        return plan

    def _described(self) -> Description:
        """Open the source and describe the dataset, once."""
        self._check_process()
        if self._source is None:
            self._source = open_source(
                self._pinning, self._given, self._as_torch, self._counts_held
            )
            finalize(self, self._source.close).atexit = False
        if self._dataset is None or self._code.is_instance:  # which the script may change
            self._dataset = self._source.describe(self._spec.dataset)
        return self._dataset

    def _count_held(self) -> None:
        """Count the batches that the script holds towards the train host's memory.

        For frameworks that hold batches ahead of the step that uses them. Raises DataError when the
        loader has been used already.
        """
        if self._source is not None and not self._counts_held:
            raise DataError(
                f"the loader of {self._spec.name} has been read before: give it to the framework "
                "as soon as it is made"
            )
        self._counts_held = True

    def _steps_left(self) -> int | None:
        """Return the steps of this rank from the resume point on; None if unknown.

        For an iterable dataset they are as many as the option steps or its `__len__` promise.
        """
        plan = self._plan(self._resume_point)
        if isinstance(plan, BatchPlan):
            return plan.steps
        whole = plan.expected_steps
        return None if whole is None else max(0, whole - plan.first)

    def _dataset_length(self) -> int:
        """Return the dataset's `len()`; raises TypeError when it has none."""
        if (length := self._described().length) is None:
            raise TypeError(f"{self._spec.dataset} is iterable and has no __len__")
        return length

    def _follow_epoch(self, epoch: int) -> None:
        """Make the next `for` read this epoch, without ending the current one.

        An iterator that has not returned a batch yet reads this epoch, too. Frameworks call it
        through `sampler.set_epoch`, some of them after `iter()`.
        """
        epoch = whole("an epoch", epoch)
        self._epoch_is_set = True
        if self._latest is None or self._latest.has_begun:
            if epoch != self._next.epoch:
                self._next = ResumePoint(epoch=epoch)
        elif epoch != self._latest.plan.epoch:
            self._start = ResumePoint(epoch=epoch)
            self._latest.restart(plan := self._plan(self._start))
            self._begin(plan)

    def _begin(self, plan: BatchPlan | ShardPlan) -> None:
        """Request the batches of a plan; the epoch after it is the next one."""
        if self._batches is not None:
            self._batches.close()
        self._next = ResumePoint(epoch=plan.epoch + 1)
        assert self._source is not None  # made with the plan
        self._batches = self._source.batches(plan)

    def _report(self, figures: Mapping[str, float]) -> None:
        if self._source is not None:
            self._source.report(self._spec.name, figures)

    def _read(self, recorder: EpochRecorder) -> Generator[Any, None, None]:
        if self._latest is not recorder or self._batches is None:
            self._refuse()
        if (epoch := self._followed_epoch.newly_set()) is not None:
            self._follow_epoch(epoch)
        recorder.has_begun = True
        batches = self._batches
        with entered(recorder.plan) as end:
            yield from self._read_batches(recorder, batches, end)

    def _read_batches(
        self,
        recorder: EpochRecorder,
        batches: Generator[Any, None, None],
        end: EpochEnd | None,
    ) -> Generator[Any, None, None]:
        assembly = self._assembly
        try:
            for number in itertools.count():
                if self._latest is not recorder or self._forks != _forks:
                    self._refuse()
                recorder.waits_since = time.perf_counter()
                if (given := next(batches, None)) is None:
                    break
                step, (tree, arrays) = given
                rebuilt = [assembly.rebuild(tree, arrays)]
                del given, tree, arrays
                skipped = None
                if recorder.plan.spec.on_error == "skip":
                    rebuilt[0], skipped = rebuilt[0]
                recorder.record(step, skipped)
                if skipped is not None and recorder.is_left_out(step, skipped):
                    continue
                if number == 0 and isinstance(recorder.plan, BatchPlan):
                    self._prepare_next(recorder.plan)
                if end is not None:
                    end.reach(number)
                yield rebuilt.pop()  # only the user holds the memory, until they drop it
            recorder.check_not_all_skipped()
            recorder.progress.end()
            first_epochs.finish(recorder.plan.spec.name, recorder.plan.epoch)
        finally:
            if self._forks == _forks:  # in a fork, the batches belong to the parent
                batches.close()
                recorder.finish()

    def _prepare_next(self, plan: BatchPlan) -> None:
        """Let the data hosts prepare the next epoch once they have finished this one."""
        epoch = plan.epoch + 1
        if self._sampler.drawn or (self._epochs is not None and epoch >= self._epochs):
            return
        with contextlib.suppress(DataError):  # raised again when that epoch is read
            following = self._plan(ResumePoint(epoch=epoch))
            if isinstance(following, BatchPlan) and following.steps and self._source is not None:
                self._source.prepare(following)

    def _check_process(self) -> None:
        if self._forks != _forks:
            raise DataError(
                f"this loader of {self._spec.name} was made in the process {self._process} and is "
                f"used in {os.getpid()}, its fork: make a DataLoader in the process that reads it"
            )

    def _refuse(self) -> NoReturn:
        """Raise an error that explains why this iteration cannot continue."""
        self._check_process()
        raise DataError(
            f"this iteration over {self._spec.name} has ended, because a newer one has begun or a "
            "state or epoch was set; to read it twice at once, make two loaders with a name= each"
        )


#: Number of forks in the ancestry of this process. Measured: calling os.getpid() before each batch
#: takes as long as counting the batch.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
