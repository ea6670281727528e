"""CUDA forward compatibility: use the image's driver library if the host's driver is older.

AWS's images put it on LD_LIBRARY_PATH in their start script, which our jobs do not run. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html
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
    """Return LD_LIBRARY_PATH with the compatibility library first, if the host's driver needs it.

    inherited: LD_LIBRARY_PATH as it is. The result is empty if there is no driver or no such
        library, or if the driver is new enough: the library would then keep programs from using the
        GPU.
    """
    installed, needed = _driver_version(driver), _library_version(folder / "libcuda.so.1")
    paths = [path for path in inherited.split(os.pathsep) if path]
    if not installed or not needed or installed >= needed or str(folder) in paths:
        return {}
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(folder), *paths])}


def _driver_version(path: Path) -> tuple[int, ...]:
    """Parse the line "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  ..."."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ()
    line = next((line for line in lines if line.startswith("NVRM")), "")
    return _numbers(line.partition("Module")[2])


def _library_version(link: Path) -> tuple[int, ...]:
    """Return the version in the target of the link, libcuda.so.<version of its driver>."""
    try:
        return _numbers(link.readlink().name.rpartition("libcuda.so.")[2])
    except OSError:
        return ()


def _numbers(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
