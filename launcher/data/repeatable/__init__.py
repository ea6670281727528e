"""User code run with the same random draws and sums in every process, whatever ran there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.repeatable import seeding
    from launcher.data.repeatable.entropy_sources import patch_webdataset, pool_tasks
    from launcher.data.repeatable.entropy_stream import EntropyStream, active_stream
    from launcher.data.repeatable.generator_search import is_generator
    from launcher.data.repeatable.generator_states import (
        HeldGenerators,
        RandomStates,
        preserve_random_states,
    )
    from launcher.data.repeatable.kept_generators import seeded_meanwhile
    from launcher.data.repeatable.seeding import run_repeatably, sample_seed, seed_everything
    from launcher.data.repeatable.single_thread import OneThread, end_idle_threads

__getattr__ = open_door(__name__)
