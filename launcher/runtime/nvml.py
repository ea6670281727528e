"""The use of this host's GPUs, by NVIDIA's NVML where its driver is installed.

NVML is a C library that comes with the driver, so no package is needed. Source:
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator
from dataclasses import dataclass

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
    """The use of a host's GPUs: the mean share of time that they computed, and bytes in use."""

    share: float
    memory_bytes: int


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
            share=sum(each.share for each in found) / len(found),
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
                yield GpuUsage(share=share.gpu / 100, memory_bytes=memory.used)


def open_nvml(library: str = _LIBRARY) -> Nvml | None:
    """Return NVML; None where it is not installed or finds no driver."""
    try:
        return Nvml(library)
    except OSError:
        return None
