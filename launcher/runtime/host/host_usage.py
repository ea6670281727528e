"""The CPU time and memory of a host's processes, its GPUs and its network, as events."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.runtime.host.event_log import emit
from launcher.shared import (
    ADDRESSES_VARIABLE,
    CPUS_VARIABLE,
    EVENTS_VARIABLE,
    VISIBLE_GPUS_VARIABLE,
    descendants,
    read_process_file,
    visible_gpus,
)

#: Seconds between two events: for a platform that reads them from a file, and for a log.
_PERIOD_SECONDS, _LOG_PERIOD_SECONDS = 5.0, 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_INTERFACES = Path("/proc/net/dev")
_MACHINE = Path("/proc/stat")
#: Interfaces within the host, whose traffic is no other's or passes another one as well.
_INNER = ("lo:", "docker", "br-", "veth", "virbr")


def report_usage() -> None:
    """Emit the use of this host's CPUs, memory, GPUs and network from a thread, until it exits."""
    threading.Thread(target=_report, name="usage", daemon=True).start()


def _report() -> None:
    period = _PERIOD_SECONDS if EVENTS_VARIABLE in os.environ else _LOG_PERIOD_SECONDS
    cpus = int(os.environ.get(CPUS_VARIABLE) or len(os.sched_getaffinity(0)))
    before, since = 0.0, time.monotonic()
    busy_before = _machine_seconds()
    traffic_before = _traffic()
    nvml = open_nvml()
    visible = visible_gpus(os.environ) if VISIBLE_GPUS_VARIABLE in os.environ else None
    while True:
        time.sleep(period)
        seconds, memory = usage([os.getpid(), *descendants(os.getpid())])
        now = time.monotonic()
        share = max(0.0, seconds - before) / (now - since) / cpus
        traffic = _traffic()
        network = network_fields(traffic_before, traffic, now - since)
        before, since, traffic_before = seconds, now, traffic
        busy_now = _machine_seconds()
        machine = machine_fields(busy_before, busy_now)
        busy_before = busy_now
        gpus = gpu_fields(nvml.usage(visible) if nvml else None)
        cpu = round(share, 3)
        emit("host_usage", cpu=cpu, cpus=cpus, memory_bytes=memory, **machine, **gpus, **network)


def machine_fields(
    before: tuple[float, float] | None, after: tuple[float, float] | None
) -> dict[str, float]:
    """Return the fields for the machine's CPUs, and the share in use or stolen; none if unknown.

    before, after: busy seconds, and all seconds, of all CPUs.
    """
    if before is None or after is None or after[1] <= before[1]:
        return {}
    share = (after[0] - before[0]) / (after[1] - before[1])
    return {"machine_cpus": os.cpu_count() or 1, "machine_busy": round(share, 3)}


def _machine_seconds() -> tuple[float, float] | None:
    """Return the busy and all seconds of all CPUs so far, from /proc/stat (proc(5)); else None."""
    try:
        fields = [int(each) for each in _MACHINE.read_text().split(None, 9)[1:9]]
    except (OSError, ValueError):
        return None
    idle = sum(fields[3:5])
    return (sum(fields) - idle) / _TICKS, sum(fields) / _TICKS


def gpu_fields(gpus: GpuUsage | None) -> dict[str, Any]:
    """Return the fields of an event for the use of GPUs; none without any."""
    if gpus is None:
        return {}
    each = [round(share, 3) for share in gpus.shares]
    several = {"gpus": each} if len(each) > 1 else {}
    return {"gpu": round(gpus.share, 3), "gpu_memory_bytes": gpus.memory_bytes, **several}


def network_fields(
    before: tuple[int, int] | None, after: tuple[int, int] | None, seconds: float
) -> dict[str, int]:
    """Return the fields for the bytes a second between two readings; none without these."""
    if before is None or after is None:
        return {}
    received, sent = (max(0, b - a) / seconds for a, b in zip(before, after, strict=True))
    return {
        "received_bytes_per_second": round(received),
        "sent_bytes_per_second": round(sent),
    }


def _traffic() -> tuple[int, int] | None:
    """Return the bytes that this host has received and sent; None if its network is not its own."""
    if ADDRESSES_VARIABLE in os.environ:  # a local host: the interfaces are the machine's
        return None
    try:
        return traffic_in(_INTERFACES.read_text())
    except (OSError, ValueError):  # no Linux, or another format
        return None


def traffic_in(interfaces: str) -> tuple[int, int] | None:
    """Return the bytes received and sent in a text of /proc/net/dev (proc(5)), None without any.

    Traffic that passes by the kernel, as that of EFA, is not in it.
    """
    lines = [line.strip() for line in interfaces.splitlines()[2:]]
    outer = [line.partition(":")[2].split() for line in lines if not line.startswith(_INNER)]
    if not outer:
        return None
    return sum(int(counts[0]) for counts in outer), sum(int(counts[8]) for counts in outer)


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


_LIBRARY = "libnvidia-ml.so.1"


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sampling period."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """The use of a host's GPUs: the share of time that each computed, and bytes in use."""

    shares: tuple[float, ...]
    memory_bytes: int

    @property
    def share(self) -> float:
        """The mean of the shares."""
        return sum(self.shares) / len(self.shares)


class Nvml:
    """NVML's functions; raises OSError without the library or a driver that runs."""

    def __init__(self, library: str = _LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        try:
            if self._library.nvmlInit_v2():
                raise OSError(f"{library} finds no driver")
        except AttributeError as error:
            raise OSError(f"{library} is no NVML") from error

    def usage(self, visible: Collection[str] | None = None) -> GpuUsage | None:
        """Return the use of all GPUs that report it; None if there is none, as with MIG.

        visible: the numbers of the GPUs that count; None, or any identifier among them, for all.
        """
        found = list(self._usages(None if visible is None else set(visible)))
        if not found:
            return None
        return GpuUsage(
            shares=tuple(each.share for each in found),
            memory_bytes=sum(each.memory_bytes for each in found),
        )

    def _usages(self, visible: Collection[str] | None) -> Iterator[GpuUsage]:
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        if visible is not None and not all(map(str.isdigit, visible)):
            visible = None
        for index in range(count.value):
            if visible is not None and str(index) not in visible:
                continue
            device, share, memory = ctypes.c_void_p(), _Utilization(), _Memory()
            failed = (
                self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
                or self._library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(share))
                or self._library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
            )
            if not failed:
                yield GpuUsage(shares=(share.gpu / 100,), memory_bytes=memory.used)


def open_nvml(library: str = _LIBRARY) -> Nvml | None:
    """Return NVML; None where it is not installed or finds no driver."""
    try:
        return Nvml(library)
    except OSError:
        return None
