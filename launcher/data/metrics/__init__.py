"""Metrics of the data service: counted per process, aggregated, published, and analysed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.metrics import in_process
    from launcher.data.metrics.counters import (
        LatencyHistogram,
        ReceiverCounters,
        StreamCounters,
        WorkerCounters,
        report_regularly,
        stream_totals,
    )
    from launcher.data.metrics.cpu_time import cpu_seconds, starved_seconds
    from launcher.data.metrics.in_process import LoadingTimes
    from launcher.data.metrics.metrics_file import Metrics, Snapshot
    from launcher.data.metrics.publishing import MetricsServer, Publisher, render
    from launcher.data.metrics.wait_samples import Collections, WaitSamples

__getattr__ = open_door(__name__)
