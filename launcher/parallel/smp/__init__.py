"""An extra: the API of SageMaker's model-parallel library v1 for PyTorch, over launcher.parallel.

    import launcher.parallel.smp as smp     # in place of smdistributed.modelparallel.torch

A script written for that library trains in a pipeline with the results of a single process.
Unsupported features raise a ParallelError that names the alternative. Names and meanings follow
smp's API reference (SageMaker Python SDK v2.200, doc/api/training). Nothing in the core of Launcher
imports this package.
"""

from __future__ import annotations

from typing import Any

from launcher.errors import ParallelError
from launcher.parallel.smp import amp
from launcher.parallel.smp.communication import (
    DP_GROUP,
    MP_GROUP,
    PP_GROUP,
    RDP_GROUP,
    WORLD,
    CommGroup,
    RankType,
    allgather,
    barrier,
    broadcast,
    dp_barrier,
    mp_barrier,
    recv_from,
    send,
)
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.optimizer import DistributedOptimizer
from launcher.parallel.smp.outputs import StepOutput
from launcher.parallel.smp.partitions import partition, set_partition
from launcher.parallel.smp.rank_placement import (
    dp_rank,
    dp_size,
    get_dp_group,
    get_dp_process_group,
    get_mp_group,
    get_mp_process_group,
    get_pp_process_group,
    get_rdp_process_group,
    get_world_process_group,
    local_rank,
    local_size,
    mp_rank,
    mp_size,
    pp_rank,
    pp_size,
    rank,
    rdp_rank,
    rdp_size,
    size,
    tp_rank,
    tp_size,
)
from launcher.parallel.smp.smp_session import init, is_initialized
from launcher.parallel.smp.states import load, save
from launcher.parallel.smp.step import step

__all__ = [
    "init",
    "is_initialized",
    "DistributedModel",
    "DistributedOptimizer",
    "step",
    "StepOutput",
    "partition",
    "set_partition",
    "save",
    "load",
    "amp",
    "rank",
    "size",
    "local_rank",
    "local_size",
    "pp_rank",
    "pp_size",
    "mp_rank",
    "mp_size",
    "dp_rank",
    "dp_size",
    "rdp_rank",
    "rdp_size",
    "tp_rank",
    "tp_size",
    "get_mp_group",
    "get_dp_group",
    "get_world_process_group",
    "get_mp_process_group",
    "get_pp_process_group",
    "get_dp_process_group",
    "get_rdp_process_group",
    "CommGroup",
    "RankType",
    "WORLD",
    "MP_GROUP",
    "PP_GROUP",
    "DP_GROUP",
    "RDP_GROUP",
    "barrier",
    "mp_barrier",
    "dp_barrier",
    "allgather",
    "broadcast",
    "send",
    "recv_from",
]

#: Names of smp that are not supported, and what to do instead.
_UNSUPPORTED = {
    "tensor_parallelism": "cut the model into more partitions",
    "set_tensor_parallelism": "cut the model into more partitions",
    "tp_register": "cut the model into more partitions",
    "tp_register_with_module": "cut the model into more partitions",
    "model_creation": "create the model without it",
    "delay_param_initialization": "create the model on the CPU, without it",
    "set_activation_checkpointing": "set recomputed=[names] in the job or in smp.init",
    "is_tracing": "leave it out: the model is not traced by running a step",
    "nn": "use the layers of torch.nn",
    "optimizers": "use those of torch.optim",
    "save_checkpoint": "use smp.save with local_state_dict()",
    "resume_from_checkpoint": "use smp.load with load_state_dict()",
}


class _UnsupportedName(ParallelError, AttributeError):
    """An unsupported name: hasattr() returns False, and other access explains the alternative."""


def __getattr__(name: str) -> Any:
    if name in _UNSUPPORTED:
        raise _UnsupportedName(f"smp.{name} is not supported: {_UNSUPPORTED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
