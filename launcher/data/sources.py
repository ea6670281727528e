"""Sources of a loader's batches: this process, or the data service."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import Protocol

from launcher.data.batches import structure
from launcher.data.batches.structure import Array
from launcher.data.memory.pinning import Pinning
from launcher.data.metrics import in_process
from launcher.data.order import samples, seeding, shard_passes
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.samples import Description
from launcher.data.order.shard_passes import Parts, Step
from launcher.data.order.shard_reader import LocalShardReader
from launcher.data.order.shards import ShardPlan
from launcher.data.order.streams import StreamSpec
from launcher.data.service import ServiceSource
from launcher.errors import DataServiceUnavailable
from launcher.runtime.environment import RECEIVER_VARIABLE, paths_here
from launcher.shared import CODE_CHANNEL, DOCUMENT_FILE, JobDocument, Role


class BatchSource(Protocol):
    """Provides datasets' descriptions and the batches of plans."""

    def describe(self, dataset: str) -> Description:
        """Return the description of a dataset."""

    def batches(self, plan: BatchPlan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        """Yield the steps of a plan and their batches, in order if its stream requires it."""

    def prepare(self, plan: BatchPlan) -> None:
        """Start work on a plan that is likely to be read after the current one."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Pass on this rank's counters of a stream."""

    def close(self) -> None:
        """Release the source; arrays that were returned stay valid."""


def open_source(pinning: Pinning | None = None) -> BatchSource:
    """Open the data service if the job declares one, else this process; never fall back.

    Raises DataServiceUnavailable when a declared service is not reachable from this process.
    """
    if name := os.environ.get(RECEIVER_VARIABLE):
        return ServiceSource(name, pinning)
    if _service_is_declared():
        raise DataServiceUnavailable(
            f"this job declares a data group, but {RECEIVER_VARIABLE} is not set in this process: "
            "start it with the environment of the training script"
        )
    return LocalSource(pinning)


def _service_is_declared() -> bool:
    document = paths_here().channels / CODE_CHANNEL / DOCUMENT_FILE
    if not document.exists():
        return False  # a script run by hand, outside any job
    declared = JobDocument.from_json(document.read_text())
    has_local_workers = declared.data is not None and declared.data.local_workers > 0
    return has_local_workers or Role.DATA in declared.roles.values()


class LocalSource:
    """Loads batches in this process, one at a time."""

    def __init__(self, pinning: Pinning | None = None) -> None:
        self._pinning = pinning
        self._datasets = samples.Datasets()
        self._has_checked = False

    def describe(self, dataset: str) -> Description:
        """Build the dataset, if need be, and describe it."""
        return samples.describe(self._datasets[dataset])

    def batches(self, plan: BatchPlan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        """Load the batches of a plan, in order."""
        if isinstance(plan, ShardPlan):
            for portion, (tree, arrays) in shard_passes.read_parts(plan, LocalShardReader):
                yield portion, (tree, self._own(plan.spec, arrays))
            return
        if not self._has_checked:  # there is no other host to compare with
            plan.check_sampler()
            self._has_checked = True
        dataset = self._datasets[plan.spec.dataset]
        for step in range(plan.steps):
            with seeding.states_kept():
                batch = samples.load_batch(dataset, plan, step)
            tree, arrays = structure.take_apart(batch)
            del batch
            yield step, (tree, self._own(plan.spec, arrays))

    def _own(self, spec: StreamSpec, arrays: list[Array]) -> list[Array]:
        """Copy arrays that may be the dataset's own, so that the script may modify them."""
        if self._pinning is not None:
            return self._pinning.copies(arrays)
        if spec.collates and spec.collate_fn is None:
            return arrays  # samples were stacked, in new memory
        return [array.copy() for array in arrays]

    def prepare(self, plan: BatchPlan) -> None:
        """Do nothing: this process is busy with the current plan."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Add the counters to the process's bottleneck report."""
        in_process.this_process().hear(stream, figures)

    def close(self) -> None:
        """Do nothing."""
