"""A made-up data engine: each rank prepares its own batches, and data hosts do nothing."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

from launcher.data import LocalSource
from launcher.runtime import JobHost, supervise_workers


class CountingSource(LocalSource):
    """Batches that are counted while they are read."""

    def batches(self, plan: Any) -> Generator[Any, None, None]:
        count = 0
        for batch in super().batches(plan):
            count += 1
            yield batch
        print(f"counted {count} batches {os.environ.get('COUNTED')}", flush=True)

    def report(self, stream: str, figures: Any) -> None:
        print(f"figures of {stream}", flush=True)


class CountingEngine:
    """Idle processes on data hosts, and one source per rank."""

    packages = ("numpy",)

    def start(self, host: JobHost) -> None:
        host.start_service("idle process", "counting_idle")
        host.variables["COUNTED"] = "here"

    def serve(self, host: JobHost) -> None:
        supervise_workers(host, "counting_idle", 1, {})

    def stop_reading(self, host: JobHost) -> None:
        host.close_service("idle process")

    def stop(self, host: JobHost) -> None:
        print("the counting engine has stopped", flush=True)

    def open_source(self, pinning: Any) -> CountingSource:
        return CountingSource(pinning)
