"""Profiling of a model's modules: seconds and bytes, measured or estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.profiling import link_speed
    from launcher.parallel.profiling.bytes import ProcessMemory, place
    from launcher.parallel.profiling.estimate import unmaterialised
    from launcher.parallel.profiling.module_costs import (
        Profile,
        ProfileKind,
        Sample,
        median_profile,
        profile,
        repeated,
    )
    from launcher.parallel.profiling.passes import sum_outputs
    from launcher.parallel.profiling.stage_clock import MakeOptimizer

__all__ = ["Sample", "profile"]

__getattr__ = open_door(__name__)
