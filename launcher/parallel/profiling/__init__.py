"""Profiling of a model's modules: seconds and bytes, measured or estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.profiling import link_speed
    from launcher.parallel.profiling.bytes import place
    from launcher.parallel.profiling.estimate import unmaterialised
    from launcher.parallel.profiling.module_costs import Profile, ProfileKind, Sample, profile
    from launcher.parallel.profiling.passes import sum_outputs

__all__ = ["Sample", "profile"]

__getattr__ = open_door(__name__)
