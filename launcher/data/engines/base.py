"""Interface of data engines: their services on hosts, and the batches that a rank reads."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from launcher.runtime import DataServices

if TYPE_CHECKING:  # hosts need no numpy
    from launcher.data.memory import Pinning
    from launcher.data.order import BatchPlan, Description, Parts, ShardPlan, Step


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


class DataEngine(DataServices, Protocol):
    """A way to prepare batches away from the ranks: its services, and the ranks' side of them.

    The batches of a plan are the same, bit for bit, whatever the engine. An engine that does not
    collect its ranks' metrics (`BatchSource.report`) passes them to
    `metrics.in_process.this_process()`, which logs the bottleneck when the rank ends. A source
    waits through `launcher.runtime.end.wait_marks`, so that the watchdog can tell waits from hangs.

    Modules of engines import numpy, torch and the like only in `open_source`, because hosts do not
    need them.
    """

    def open_source(self, pinning: Pinning | None) -> BatchSource:
        """Open the services for this rank; raises DataServiceUnavailable when that fails."""
