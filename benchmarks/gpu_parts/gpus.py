"""The number of GPUs that a line needs, as its note says it."""

from __future__ import annotations

import torch

from table.figures import Figure


def note(count: int) -> str:
    """Return the note of a line that was measured on so many GPUs."""
    return f" on {count} GPU{'s' * (count > 1)}"


def missing(row: str, what: str, needs: int) -> Figure | None:
    """Return the line of what needs more GPUs than this machine has; None if it can be measured."""
    if torch.cuda.device_count() >= needs:
        return None
    return Figure(row=row, what=what, values=[], note=f"needs {needs} GPUs")
