"""An extra: the API of SageMaker's model-parallel library v1 for PyTorch, over launcher.parallel.

    import launcher.parallel.smp as smp     # in place of smdistributed.modelparallel.torch

A script written for that library trains in a pipeline with the results of a single process.
Unsupported features raise a ParallelError that names the alternative. Names and meanings follow
smp's API reference (SageMaker Python SDK v2.200, doc/api/training). Nothing in the core of Launcher
imports this package.
"""

from __future__ import annotations

from typing import Any

from launcher.parallel.pipeline import UnsupportedName
from launcher.parallel.smp.checkpoint_folders import resume_from_checkpoint, save_checkpoint
from launcher.parallel.smp.communication import (
    DP_GROUP,
    MP_GROUP,
    PP_GROUP,
    RDP_GROUP,
    TP_GROUP,
    WORLD,
    CommGroup,
    RankType,
    allgather,
    barrier,
    broadcast,
    dp_barrier,
    dp_rank,
    dp_size,
    get_dp_group,
    get_dp_process_group,
    get_mp_group,
    get_mp_process_group,
    get_pp_group,
    get_pp_process_group,
    get_rdp_group,
    get_rdp_process_group,
    get_tp_group,
    get_tp_process_group,
    get_world_process_group,
    local_rank,
    local_size,
    mp_barrier,
    mp_rank,
    mp_size,
    pp_barrier,
    pp_rank,
    pp_size,
    rank,
    rdp_barrier,
    rdp_rank,
    rdp_size,
    recv_from,
    send,
    size,
    tp_barrier,
    tp_rank,
    tp_size,
)
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.model_contexts import (
    delay_param_initialization,
    is_tracing,
    model_creation,
    partition,
    set_activation_checkpointing,
    set_partition,
)
from launcher.parallel.smp.modules_of_smp import amp, nn, optimizers, patches
from launcher.parallel.smp.optimizer import DistributedOptimizer
from launcher.parallel.smp.smp_session import init, is_initialized
from launcher.parallel.smp.states import load, save
from launcher.parallel.smp.step import StepOutput, step

#: The version of smp whose names and meanings these are.
__version__ = "1.15.0"

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
    "save_checkpoint",
    "resume_from_checkpoint",
    "model_creation",
    "delay_param_initialization",
    "set_activation_checkpointing",
    "is_tracing",
    "amp",
    "nn",
    "optimizers",
    "patches",
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
    "get_pp_group",
    "get_rdp_group",
    "get_tp_group",
    "get_world_process_group",
    "get_mp_process_group",
    "get_pp_process_group",
    "get_dp_process_group",
    "get_rdp_process_group",
    "get_tp_process_group",
    "CommGroup",
    "RankType",
    "WORLD",
    "MP_GROUP",
    "PP_GROUP",
    "DP_GROUP",
    "RDP_GROUP",
    "TP_GROUP",
    "barrier",
    "mp_barrier",
    "dp_barrier",
    "pp_barrier",
    "rdp_barrier",
    "tp_barrier",
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
    "reset": "start another process",
}


def __getattr__(name: str) -> Any:
    if name in _UNSUPPORTED:
        raise UnsupportedName(f"smp.{name} is not supported: {_UNSUPPORTED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
