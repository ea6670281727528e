"""Models as .safetensors files, where that package is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from launcher.errors import ParallelError


def write(model: dict[str, object], tied: Mapping[str, str], file: Path) -> None:
    """Write a .safetensors file. tied: other names of shared tensors, each with the written one.

    The format has no shared tensors. Like safetensors.torch.save_model, this writes one of the
    names, and the others to the metadata, where its load_model finds them. Raises ParallelError if
    the package is missing, and for values that are not tensors.
    """
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise ParallelError(
            "the package safetensors is not installed: install it, or export to a file without the "
            "suffix .safetensors, which torch.save writes"
        ) from None
    if objects := [name for name, value in model.items() if not torch.is_tensor(value)]:
        raise ParallelError(
            f"{', '.join(objects)} is not a tensor, and .safetensors files hold only tensors: "
            "export to a file with another suffix, which torch.save writes"
        )
    save_file(model, file, metadata={"format": "pt", **tied})
