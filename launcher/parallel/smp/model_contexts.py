"""Contexts in which scripts for smp create their model, and marks on its modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.smp_session import session


@contextlib.contextmanager
def model_creation(
    tensor_parallelism: bool = False,
    dtype: torch.dtype | None = None,
    **tensor_parallel_config: object,
) -> Iterator[None]:
    """Create a model within the context, in `dtype` if it is given.

    If the stages compute in 16 bits (fp16 or bf16 in smp.init), a dtype of 16 bits is without
    effect: the parameters keep theirs, as the optimizer's copy of them does in smp.

    Raises ParallelError for tensor parallelism; its other options are then without effect.
    """
    if tensor_parallelism:
        raise ParallelError(
            "smp.model_creation(tensor_parallelism=True) is not supported: cut the model into more "
            "partitions"
        )
    before = torch.get_default_dtype()
    is_half = dtype in (torch.float16, torch.bfloat16) and session().part.precision is not None
    torch.set_default_dtype(before if dtype is None or is_half else dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def delay_param_initialization(enabled: bool = True) -> Iterator[None]:
    """Create a model within the context; its parameters are initialized at once, on the CPU.

    Each rank then keeps only those of its stage. Results are the same; CPU memory is not saved.
    """
    yield


def set_activation_checkpointing(
    module: nn.Module,
    preserve_rng_state: bool = True,
    pack_args_as_tuple: bool = False,
    strategy: str = "each",
) -> None:
    """Recompute the activations of a module of the model in the backward pass.

    Called after smp.DistributedModel and before the first step. module: of a Sequential or
        ModuleList, each entry is recomputed by itself.
    pack_args_as_tuple, strategy: accepted; they change the use of memory only.

    Raises ParallelError for a module that is not one of the model, or without its random state.
    """
    if not preserve_rng_state:
        raise ParallelError(
            "smp.set_activation_checkpointing(preserve_rng_state=False) would drop other elements "
            "in the backward pass than in the forward pass: leave it out"
        )
    models = session().models
    if not models:
        raise ParallelError(
            "smp.set_activation_checkpointing is called before the model exists: create "
            "smp.DistributedModel first"
        )
    model: DistributedModel = models[0]
    model.recompute(module)


def is_tracing() -> bool:
    """Return False: a model is traced by calling it as it is, so no code depends on it."""
    return False
