"""CUDA's forward compatibility: the image's own driver library, where the host's driver is older.

AWS's images put it on LD_LIBRARY_PATH in their start script, which a job of ours does not run.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html
"""

from __future__ import annotations

import os
import re
from pathlib import Path

COMPATIBILITY = Path("/usr/local/cuda/compat")
DRIVER_VERSION = Path("/proc/driver/nvidia/version")

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def compatibility_variables(
    inherited: str, folder: Path = COMPATIBILITY, driver: Path = DRIVER_VERSION
) -> dict[str, str]:
    """LD_LIBRARY_PATH with the compatibility library first, where the host's driver needs it.

    inherited: LD_LIBRARY_PATH as it is. Empty where there is no driver, no such library, or a
    driver that is new enough: the library then would keep programs from the GPU.
    """
    has, wants = _driver_version(driver), _library_version(folder / "libcuda.so.1")
    paths = [path for path in inherited.split(os.pathsep) if path]
    if not has or not wants or has >= wants or str(folder) in paths:
        return {}
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(folder), *paths])}


def _driver_version(path: Path) -> tuple[int, ...]:
    """Of the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  ..."."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ()
    line = next((line for line in lines if line.startswith("NVRM")), "")
    return _numbers(line.partition("Module")[2])


def _library_version(link: Path) -> tuple[int, ...]:
    """The library is a link to libcuda.so.<version of the driver that it comes from>."""
    try:
        return _numbers(link.readlink().name.rpartition("libcuda.so.")[2])
    except OSError:
        return ()


def _numbers(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
