"""The dispatcher: one process on the leader that decides which worker prepares which batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.dispatcher.coordinator import Coordinator
    from launcher.data.dispatcher.dataset_lengths import DatasetLengths
    from launcher.data.dispatcher.determinism_check import DeterminismCheck
    from launcher.data.dispatcher.dispatcher import Dispatcher
    from launcher.data.dispatcher.epoch_reads import (
        INITIAL_WINDOW,
        ConsumedCounts,
        ReadProgress,
        ReadSpec,
    )
    from launcher.data.dispatcher.health_monitor import HealthMonitor
    from launcher.data.dispatcher.lease_assigner import (
        FIRST_LATE_AFTER,
        LATE_AFTER,
        LATE_FACTOR,
        LIKELY_STARTED,
    )
    from launcher.data.dispatcher.lease_scheduler import (
        MAX_DEATHS,
        WORKER_RECONNECT_TIMEOUT,
        LeaseScheduler,
    )
    from launcher.data.dispatcher.rank_consistency import RankConsistency, StreamReader
    from launcher.data.dispatcher.shard_affinity import MOVABLE_LEASES
    from launcher.data.dispatcher.worker_pool import SILENCE

__getattr__ = open_door(__name__)
