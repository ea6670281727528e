"""Sources of a loader's batches: this process, or the job's data engine."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Mapping

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
    SecondPreparations,
    ShardPlan,
    Step,
    StreamSpec,
    samples,
    shard_interleaving,
)
from launcher.data.repeatable import OneThread, preserve_random_states, seeding
from launcher.data.torch_arguments import TorchArguments
from launcher.runtime import ENGINE_VARIABLE, paths_here
from launcher.shared import CODE_CHANNEL, DOCUMENT_FILE, JobDocument, Role

_NO_ARGUMENTS = TorchArguments()


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
        return LocalSource(pinning, given, as_torch.workers)
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
                plan, lambda each: LocalShardReader(each, given, self._one_thread)
            )
            # Unlike a loop, map keeps no reference to what it has given.
            yield from map(functools.partial(self._owned, plan.spec), passes)
            return
        if not self._has_checked:  # there is no other host to compare with
            plan.check_sampler()
            self._has_checked = True
        if self._workers:
            yield from self._batches_of_workers(plan, given)
            return
        later = LaterPreparation(self._verifier)
        for step in range(plan.steps):
            yield (
                step,
                self._loading.load(functools.partial(self._prepare, plan, step, given, later)),
            )
            later.compare()

    def _prepare(
        self, plan: BatchPlan, step: int, given: GivenObjects, later: LaterPreparation
    ) -> Parts:
        """Load a batch, which is verified later if it is chosen; return what is the script's."""
        dataset = self._datasets.ready(plan.spec, plan.epoch)
        if plan.spec.seeding == "worker":  # as torch's num_workers=0 does
            batch = samples.load_batch(dataset, plan, step, given)
        else:
            batch = self._load(plan, step, dataset, given)
        chosen = self._verifier.chooses(plan, step)
        if not chosen and (plain := copy_plain(batch)) is not None:
            return plain, []
        tree, arrays = structure.disassemble(batch)
        if chosen:
            again = functools.partial(self.load, plan, step, given)
            later.add(plan, step, (tree, arrays), again)
        return tree, self._copy_if_shared(plan.spec, arrays)

    def load(self, plan: BatchPlan, step: int, given: GivenObjects | None = None) -> Parts:
        """Load the batch of one step, whichever were loaded before."""
        dataset = self._datasets.ready(plan.spec, plan.epoch)
        return structure.disassemble(self._load(plan, step, dataset, given or self._datasets.given))

    def _load(self, plan: BatchPlan, step: int, dataset: object, given: GivenObjects) -> object:
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
            return lambda step: samples.load_batch(dataset, plan, step, given)

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

    def _owned(self, spec: StreamSpec, given: tuple[Step, Parts]) -> tuple[Step, Parts]:
        step, (tree, arrays) = given
        return step, (tree, self._copy_if_shared(spec, arrays))

    def _copy_if_shared(self, spec: StreamSpec, arrays: list[Array]) -> list[Array]:
        """Copy arrays that may be the dataset's own, so that the script may modify them."""
        if self._pinning is not None:
            return self._pinning.copies(arrays)
        if spec.collates and spec.collate_fn is None:
            return arrays  # samples were stacked, in new memory
        return [array.copy() for array in arrays]

    def prepare(self, plan: BatchPlan) -> None:
        """Do nothing: this process loads one batch at a time."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Add the counters to the process's bottleneck report."""
        in_process.this_process().record(stream, {**figures, **self._loading.figures()})

    def close(self) -> None:
        """Do nothing."""
