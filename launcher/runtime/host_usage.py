"""The CPU time and memory of a host's processes, and the use of its GPUs, as events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable

from launcher.runtime.event_log import emit
from launcher.runtime.nvml import GpuUsage, open_nvml
from launcher.shared import CPUS_VARIABLE, EVENTS_VARIABLE
from launcher.shared.process_table import descendants, read_process_file
from launcher.shared.visible_gpus import VISIBLE_GPUS_VARIABLE, visible_gpus

#: Seconds between two events: for a platform that reads them from a file, and for a log.
_PERIOD_SECONDS, _LOG_PERIOD_SECONDS = 5.0, 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def report_usage() -> None:
    """Emit the use of this host's CPUs, memory and GPUs from a thread, until it exits."""
    threading.Thread(target=_report, name="usage", daemon=True).start()


def _report() -> None:
    period = _PERIOD_SECONDS if EVENTS_VARIABLE in os.environ else _LOG_PERIOD_SECONDS
    cpus = int(os.environ.get(CPUS_VARIABLE) or len(os.sched_getaffinity(0)))
    before, since = 0.0, time.monotonic()
    nvml = open_nvml()
    visible = visible_gpus(os.environ) if VISIBLE_GPUS_VARIABLE in os.environ else None
    while True:
        time.sleep(period)
        seconds, memory = usage([os.getpid(), *descendants(os.getpid())])
        now = time.monotonic()
        share = max(0.0, seconds - before) / (now - since) / cpus
        before, since = seconds, now
        gpus = gpu_fields(nvml.usage(visible) if nvml else None)
        emit("host_usage", cpu=round(share, 3), cpus=cpus, memory_bytes=memory, **gpus)


def gpu_fields(gpus: GpuUsage | None) -> dict[str, float]:
    """Return the fields of an event for the use of GPUs; none without any."""
    if gpus is None:
        return {}
    return {"gpu": round(gpus.share, 3), "gpu_memory_bytes": gpus.memory_bytes}


def usage(pids: Iterable[int]) -> tuple[float, int]:
    """Return the CPU seconds of processes and of the children that they have waited for.

    With it, the bytes of memory of the processes, where pages that several share count for each.
    """
    ticks = pages = 0
    for pid in pids:
        # The fields after the command, which is in parentheses and may contain anything (proc(5)).
        fields = read_process_file(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > 21:
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return ticks / _TICKS, pages * _PAGE_BYTES
