"""Sources of a loader's batches: this process, or the job's data engine."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Generator, Mapping

from launcher.data.batches import Array, copy_plain, structure
from launcher.data.engines import BatchSource, find_engine, forked_workers
from launcher.data.memory import Pinning
from launcher.data.metrics import LoadingTimes, in_process
from launcher.data.order import (
    BatchPlan,
    Description,
    GivenObjects,
    LaterPreparation,
    LocalShardReader,
    LocalVerifier,
    Parts,
    SavedStates,
    SecondPreparations,
    ShardPlan,
    Step,
    StreamSpec,
    chosen_steps,
    samples,
    shard_interleaving,
)
from launcher.data.repeatable import OneThread, preserve_random_states, seeding
from launcher.data.torch_arguments import TorchArguments
from launcher.runtime import ENGINE_VARIABLE, paths_here
from launcher.shared import CODE_CHANNEL, DEBUG_VARIABLE, DOCUMENT_FILE, JobDocument, Role

_NO_ARGUMENTS = TorchArguments()
#: Share of the script's time that may go to saving states of an iterable dataset.
_SAVING_SHARE = 0.01
#: Makes arrays the script's own.
Own = Callable[[list[Array]], list[Array]]


def open_source(
    pinning: Pinning | None = None,
    given: GivenObjects = samples.NO_OBJECTS,
    as_torch: TorchArguments = _NO_ARGUMENTS,
    counts_held: bool = False,
) -> BatchSource:
    """Open the job's data engine if the job declares a data service, else this process.

    given: objects of this process, which only this process can read.
    counts_held: batches that the script holds count towards the memory of the train host.

    Never falls back: raises DataServiceUnavailable when a declared service is not reachable from
    this process, and DataError when there is no such engine.
    """
    name = declared_engine()
    if name is None:
        as_torch.note_workers()
        # A debugger stops in this process, not in forks of it.
        workers = 0 if DEBUG_VARIABLE in os.environ else as_torch.workers
        return LocalSource(pinning, given, workers)
    source = find_engine(name).open_source(pinning)
    if as_torch.timeout and hasattr(source, "timeout"):
        source.timeout = as_torch.timeout
    if counts_held and hasattr(source, "count_held"):
        source.count_held(_budget() // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    return source


def _budget() -> int:
    """Return the bytes of batches that this train host may hold."""
    document = JobDocument.from_json(
        (paths_here().channels / CODE_CHANNEL / DOCUMENT_FILE).read_text()
    )
    return document.data.prefetch_bytes if document.data else 0


def declared_engine() -> str | None:
    """Return the name of the data engine that prepares the job's batches, None for this process."""
    if name := os.environ.get(ENGINE_VARIABLE):
        return name
    document = paths_here().channels / CODE_CHANNEL / DOCUMENT_FILE
    if not document.exists():
        return None  # a script run by hand, outside any job
    declared = JobDocument.from_json(document.read_text())
    if declared.data is None:
        return None
    has_workers = declared.data.local_workers > 0 or Role.DATA in declared.roles.values()
    return declared.data.engine if has_workers else None


class LocalSource:
    """Loads batches in this process, one at a time, or in forks of it.

    workers: processes to fork for each epoch of a map-style dataset.
    """

    def __init__(
        self,
        pinning: Pinning | None = None,
        given: GivenObjects = samples.NO_OBJECTS,
        workers: int = 0,
    ) -> None:
        self._workers = workers
        self._pinning = pinning
        self._one_thread = OneThread()
        self._datasets = samples.Datasets(given, self._one_thread)
        self._has_checked = False
        self._verifier = LocalVerifier()
        self._loading = LoadingTimes()
        self._inexact: set[str] = set()  # datasets that cannot resume from their states

    def describe(self, dataset: str) -> Description:
        """Build the dataset, if need be, and describe it."""
        with self._one_thread:
            return samples.describe(self._datasets[dataset])

    def give(self, given: GivenObjects) -> None:
        """Read the epochs that begin from now on with other functions of this process."""
        self._datasets.given = given

    def batches(self, plan: BatchPlan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        """Load the batches of a plan, in order."""
        return self._batches(plan, self._datasets.given)

    def _batches(
        self, plan: BatchPlan | ShardPlan, given: GivenObjects
    ) -> Generator[tuple[Step, Parts], None, None]:
        if isinstance(plan, ShardPlan):
            passes = shard_interleaving.read_parts(
                plan,
                lambda each: LocalShardReader(
                    each, given, self._one_thread, self._saved_states(plan)
                ),
            )
            own = self._copies_of_shared(plan.spec)
            # Unlike a loop, map keeps no reference to what it has given.
            yield from map(functools.partial(_owned, own), passes)
            return
        if not self._has_checked:  # there is no other host to compare with
            plan.check_sampler()
            self._has_checked = True
        if self._workers:
            yield from self._batches_of_workers(plan, given)
            return
        later, loading = LaterPreparation(self._verifier), self._loading
        prepare = self._preparation(plan, given, later)
        for step in range(plan.steps):
            if time.perf_counter() < loading.due:
                yield step, prepare(step)
            else:
                yield step, loading.load(functools.partial(prepare, step))
            if later.due is not None:
                compare, later.due = later.due, None
                compare()

    def _saved_states(self, plan: ShardPlan) -> SavedStates:
        return SavedStates(plan.spec.dataset, inexact=self._inexact, share=_SAVING_SHARE)

    def _preparation(
        self, plan: BatchPlan, given: GivenObjects, later: LaterPreparation
    ) -> Callable[[int], Parts]:
        """Return what loads the batch of a step, as the script's own, for this epoch.

        A batch that is chosen is verified later. What all steps have in common is found once.
        """
        spec, epoch, datasets = plan.spec, plan.epoch, self._datasets
        dataset = datasets.ready(spec, epoch)
        are_told = datasets.are_told(spec.dataset)
        # Seeded by worker as torch's num_workers=0 does.
        load = samples.load_batch if spec.seeding == "worker" else self._load
        own, chosen, may_be_plain = self._copies_of_shared(spec), chosen_steps(plan), True

        def prepare(step: int) -> Parts:
            nonlocal may_be_plain
            if are_told:
                datasets.ready(spec, epoch)
            batch = load(dataset, plan, step, given)
            if step in chosen and self._verifier.chooses(plan, step):
                tree, arrays = structure.disassemble(batch, **spec.sending)
                later.add(plan, step, (tree, arrays), lambda: self.load(plan, step, given))
                return tree, own(arrays)
            if may_be_plain and (plain := copy_plain(batch)) is not None:
                return plain, []
            may_be_plain = False
            tree, arrays = structure.disassemble(batch, **spec.sending)
            return tree, own(arrays)

        return prepare

    def load(self, plan: BatchPlan, step: int, given: GivenObjects | None = None) -> Parts:
        """Load the batch of one step, whichever were loaded before."""
        dataset = self._datasets.ready(plan.spec, plan.epoch)
        batch = self._load(dataset, plan, step, given or self._datasets.given)
        return structure.disassemble(batch, **plan.spec.sending)

    def _load(self, dataset: object, plan: BatchPlan, step: int, given: GivenObjects) -> object:
        load = functools.partial(samples.load_batch, dataset, plan, step, given)
        with preserve_random_states(), self._one_thread:
            return self._one_thread.call(load)

    def _batches_of_workers(
        self, plan: BatchPlan, given: GivenObjects
    ) -> Generator[tuple[Step, Parts], None, None]:
        # Made here once, for all forks.
        _ = self._datasets.of_epoch(plan.spec.dataset, plan.epoch), plan.order

        def prepare() -> forked_workers.Load:
            dataset = self._datasets.ready(plan.spec, plan.epoch)
            if plan.spec.seeding == "worker":
                own = seeding.sample_seed(plan.spec.seed, plan.epoch, os.getpid(), b"worker")
                seeding.seed_everything(own)
            return lambda step: forked_workers.disassemble_plainly(
                samples.load_batch(dataset, plan, step, given), **plan.spec.sending
            )

        seconds = SecondPreparations(plan, self._verifier)
        batches = forked_workers.read_with_workers(
            self._workers, plan.steps, prepare, plan.spec.name, seconds
        )
        with contextlib.closing(batches):
            for step in range(plan.steps):
                yield step, self._pinned(*next(batches))  # keep no reference
            next(batches, None)  # which compares the last ones

    def _pinned(self, tree: structure.Tree, arrays: list[Array]) -> Parts:
        return tree, arrays if self._pinning is None else self._pinning.copies(arrays)

    def _copies_of_shared(self, spec: StreamSpec) -> Own:
        """Return what copies arrays that may be the dataset's own, which the script may modify."""
        if self._pinning is not None:
            return self._pinning.copies
        if spec.collates and spec.collate_fn is None:
            return lambda arrays: arrays  # samples were stacked, in new memory
        return lambda arrays: [array.copy() for array in arrays]

    def prepare(self, plan: BatchPlan) -> None:
        """Do nothing: this process loads one batch at a time."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Add the counters to the process's bottleneck report."""
        in_process.this_process().record(stream, {**figures, **self._loading.figures()})

    def close(self) -> None:
        """Do nothing."""


def _owned(own: Own, given: tuple[Step, Parts]) -> tuple[Step, Parts]:
    step, (tree, arrays) = given
    return step, (tree, own(arrays))
