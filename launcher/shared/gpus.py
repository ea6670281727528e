"""The NVIDIA GPUs that programs on this machine, or on a host of a local job, can use."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping

#: CUDA's variable: the GPUs that a program sees, by number or identifier, with commas. Source:
#: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
VISIBLE_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
#: A line of nvidia-smi: "GPU 0: NVIDIA A10G (UUID: GPU-5a1c0e7d-...)".
_GPU = re.compile(r"^GPU \d*:? ?(.*?)(?: \(UUID:.*)?$", re.MULTILINE)


def visible_gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs as CUDA_VISIBLE_DEVICES names them; all of this machine if it is not set."""
    named = environment.get(VISIBLE_GPUS_VARIABLE)
    if named is None:
        return tuple(str(number) for number, _ in enumerate(gpu_models()))
    names = [name.strip() for name in named.split(",")]
    hidden = next((n for n, name in enumerate(names) if name in ("", "-1")), len(names))
    return tuple(names[:hidden])  # CUDA ignores those behind the first invalid one, too


def gpu_models() -> tuple[str, ...]:
    """Return the model of each GPU that NVIDIA's driver lists; none without a driver."""
    if shutil.which("nvidia-smi") is None:
        return ()
    listing = subprocess.run(
        ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False
    )
    return tuple(_GPU.findall(listing.stdout))
