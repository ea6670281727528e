"""Errors of scripts that use a GPU on a machine without one, such as a laptop's local job."""

from __future__ import annotations

import os
import re

from launcher.shared.gpus import visible_gpus

#: What torch, Lightning, Accelerate, JAX and TensorFlow raise there.
_NEEDS_GPU = re.compile(
    r"not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|"
    r"n't have NCCL built in|NCCL is only supported with GPUs|No supported gpu backend|"
    r"CUDA driver version is insufficient|Unable to initialize backend .(?:cuda|gpu)|"
    r"no CUDA-capable device|CUDA is not available|[Nn]o GPUs? (?:was|were) found"
)


def gpu_words(cause: str) -> str:
    """Return what to add to a cause that a missing GPU explains; empty for any other."""
    if not _NEEDS_GPU.search(cause):
        return ""
    if visible_gpus(os.environ):
        return " (this machine has a GPU that this environment cannot use)"
    return " (this machine has no GPU)"
