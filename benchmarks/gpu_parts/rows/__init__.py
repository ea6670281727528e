"""The rows by name; each says how many GPUs its lines need."""

from __future__ import annotations

from types import ModuleType

from gpu_parts.rows import (
    copies,
    examples,
    feeding,
    overhead,
    pipeline,
    precision,
    ranks,
    stages,
    starved,
)


def by_name() -> dict[str, ModuleType]:
    """Return the modules with `measure`, in the order in which they run."""
    found = (overhead, ranks, precision, copies, feeding, starved, stages, pipeline, examples)
    return {module.__name__.rpartition(".")[2]: module for module in found}
