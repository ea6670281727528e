"""`smp.nn`: the names of its layers and translations that scripts use without tensor parallelism.

A distributed layer, which splits its parameters over ranks, raises a ParallelError, and so does
FlashAttentionLayer.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.smp.nn import huggingface as huggingface


class FusedLayerNorm(nn.LayerNorm):  # type: ignore[misc] # torch types it as Any
    """torch.nn.LayerNorm, under the name by which scripts find smp's layers in a model."""


def __getattr__(name: str) -> Any:
    if name.startswith("Distributed"):
        # No AttributeError, which `from ... import` replaces by its own message.
        raise ParallelError(
            f"smp.nn.{name} is not supported, since there is no tensor parallelism: use the layers "
            "of torch.nn, and cut the model into more partitions"
        )
    if name == "FlashAttentionLayer":
        raise ParallelError(
            "smp.nn.FlashAttentionLayer is not supported: use "
            "torch.nn.functional.scaled_dot_product_attention, which chooses FlashAttention where "
            "the GPU has it"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
