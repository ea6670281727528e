"""`smp.optimizers`, whose optimizers are Apex's: each name raises a ParallelError."""

from __future__ import annotations

from typing import Any

from launcher.errors import ParallelError


def __getattr__(name: str) -> Any:
    if name.startswith("Fused"):
        # No AttributeError, which `from ... import` replaces by its own message.
        raise ParallelError(
            f"smp.optimizers.{name} is not supported: use an optimizer of torch.optim, such as "
            "AdamW(parameters, fused=True)"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
