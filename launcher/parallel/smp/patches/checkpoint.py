"""`smp.patches.checkpoint`: calls that recompute activations; each raises a ParallelError."""

from __future__ import annotations

from typing import Any

from launcher.errors import ParallelError


def __getattr__(name: str) -> Any:
    if name.startswith("checkpoint"):
        # No AttributeError, which `from ... import` replaces by its own message.
        raise ParallelError(
            f"smp.patches.checkpoint.{name} is not supported: call the module itself, and "
            "smp.set_activation_checkpointing(module) before the first step"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
