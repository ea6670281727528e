"""Doing a fault to a running job."""

from __future__ import annotations

from collections.abc import Callable

import host_faults
import rank_faults
import worker_faults
from injuries import Injury
from schedule import Fault, Kind
from small_job import SmallJob


def commit(job: SmallJob, fault: Fault) -> Injury | None:
    """Do it; None when there is nobody to do it to."""
    return _WAYS[fault.kind](job, fault)


_WAYS: dict[Kind, Callable[[SmallJob, Fault], Injury | None]] = {
    Kind.KILL_WORKER: worker_faults.kill_worker,
    Kind.STOP_WORKER: worker_faults.stop_worker,
    Kind.SLOW_WORKER: worker_faults.slow_worker,
    Kind.ADD_WORKER: host_faults.add_worker,
    Kind.DRAIN_WORKER: worker_faults.drain_worker,
    Kind.KILL_DISPATCHER: host_faults.kill_dispatcher,
    Kind.STOP_DISPATCHER: host_faults.stop_dispatcher,
    Kind.RESTART_DATA_HOST: host_faults.restart_data_host,
    Kind.CUT_CABLE: host_faults.cut_cable,
    Kind.RESET_CABLE: host_faults.reset_cable,
    Kind.SLOW_CABLE: host_faults.slow_cable,
    Kind.KILL_RANK: rank_faults.kill_rank,
    Kind.STOP_RANK: rank_faults.stop_rank,
    Kind.RESTART_RANKS: rank_faults.restart_ranks,
    Kind.STOP_RECEIVER: host_faults.stop_receiver,
    Kind.STOP_HOST: host_faults.stop_host,
}
