"""Contexts in which scripts for smp create their model, and its modules' partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.cuts import Pins
from launcher.parallel.smp.smp_session import session
from launcher.shared import ParallelPart

#: The attribute that holds a module's partition. Copies of the module keep it.
_PIN = "_launcher_partition"


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
    models[0].recompute(module)


def is_tracing() -> bool:
    """Return False: a model is traced by calling it as it is, so no code depends on it."""
    return False


@contextlib.contextmanager
def partition(index: int) -> Iterator[None]:
    """Assign modules created within the context to a partition; the innermost context wins."""
    _check(index)
    make = nn.Module.__init__

    def make_here(module: nn.Module, *args: object, **kwargs: object) -> None:
        make(module, *args, **kwargs)
        setattr(module, _PIN, index)

    nn.Module.__init__ = make_here
    try:
        yield
    finally:
        nn.Module.__init__ = make


def set_partition(module: nn.Module, index: int) -> None:
    """Assign a module and all its submodules to a partition."""
    _check(index)
    for each in module.modules():
        setattr(each, _PIN, index)


def _check(index: int) -> None:
    count = session().world.degrees.stages
    if not (isinstance(index, int) and 0 <= index < count):
        raise ParallelError(f"partition {index!r} does not exist: use 0 to {count - 1}")


def cuts(model: nn.Module, part: ParallelPart) -> tuple[str, ...] | Pins | None:
    """Return the cuts of the model as a Pipeline takes them.

    None if a file has them, or if auto_partition finds them. Raises ParallelError.
    """
    found = {**part.stages, **_pinned(model)}
    starts = part.partition_file or ", ".join(part.starts)
    if found and starts:
        raise ParallelError(
            f"the job sets where stages start ({starts}), but modules are also assigned to "
            f"partitions ({', '.join(sorted(found))}): use only one of the two"
        )
    if found:
        return Pins(stages=found, default=part.default_stage)
    if part.partition_file:  # its starts are checked when it is read
        return None
    if part.starts or part.auto_partition:
        return part.starts or None
    if part.partitions > 1:
        raise ParallelError(
            f"{type(model).__name__} has no cuts for its {part.partitions} partitions: create its "
            "modules in smp.partition(...), name the module at which each stage but the "
            "first begins (smp.init(starts=[...]), or starts in the job's distribution), or leave "
            "out auto_partition=False"
        )
    return ()


def _pinned(module: nn.Module, name: str = "", outer: int | None = None) -> dict[str, int]:
    """Return the partition of each module that differs from that of its parent, by name."""
    own = vars(module).get(_PIN, outer)
    found = {name: own} if name and own is not None and own != outer else {}
    for child, inner in module.named_children():
        found |= _pinned(inner, f"{name}.{child}".lstrip("."), own)
    return found
