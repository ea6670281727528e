"""Data engines: their interface, and the registry; those that are not listed are entry points."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from launcher.errors import DataError
from launcher.runtime import DataServices
from launcher.shared import DEFAULT_ENGINE, ENGINE_ENTRY_POINTS, TF_ENGINE

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


_OURS = {
    DEFAULT_ENGINE: "launcher.data.engines.service_engine:ServiceEngine",
    TF_ENGINE: "launcher.data.engines.tf_engine:TfEngine",
}


def find_engine(name: str) -> DataEngine:
    """Create the engine of that name; raises DataError when this Python has none."""
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        engine: DataEngine = getattr(importlib.import_module(module), attribute)()
        return engine
    return _find_other(name)


def _find_other(name: str) -> DataEngine:
    from importlib.metadata import entry_points  # reads every package's folder: 20 ms and more

    others = entry_points(group=ENGINE_ENTRY_POINTS)
    if name not in others.names:
        known = ", ".join(sorted({*_OURS, *others.names}))
        raise DataError(
            f'no data engine "{name}" is installed, only {known}: install the package that has it '
            f"as an entry point of {ENGINE_ENTRY_POINTS}"
        )
    engine: DataEngine = others[name].load()()
    return engine
