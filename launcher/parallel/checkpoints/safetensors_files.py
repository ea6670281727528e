"""Models as .safetensors files, where that package is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from launcher.errors import ParallelError


def write(model: dict[str, object], tied: Mapping[str, str], file: Path) -> None:
    """Write a .safetensors file. tied: further names, each with that of the tensor that it shares.

    The format has no shared tensors. Like safetensors.torch.save_model, this writes one of the
    names, and the others into the metadata, where its load_model finds them. Raises ParallelError
    where the package is missing, and for values that are not tensors.
    """
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise ParallelError(
            "the package safetensors is not installed here: install it, or choose a file that does "
            "not end in .safetensors, which torch.save writes"
        ) from None
    if objects := [name for name, value in model.items() if not torch.is_tensor(value)]:
        raise ParallelError(
            f"{', '.join(objects)} is no tensor, and .safetensors holds nothing else: choose a "
            "file of another ending, which torch.save writes"
        )
    save_file(model, file, metadata={"format": "pt", **tied})
