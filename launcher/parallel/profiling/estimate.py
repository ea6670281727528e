"""Estimates of the seconds of passes from the arithmetic and bytes of each operation.

An operation takes as long as the slower of its arithmetic and its bytes (a roofline), plus a fixed
overhead per call. The rates of this machine are measured. Tensors may be fake (torch's
FakeTensorMode), so that no part of the model has to be in memory: `unmaterialised` makes them so.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from launcher.errors import ParallelError
from launcher.parallel.profiling.passes import PassRecorder

if TYPE_CHECKING:
    from launcher.parallel.profiling.module_costs import Sample

_MATRIX_SIDE = 1024
_COPIED_BYTES = 2**24
_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of a device. operations, moved: floating-point operations and bytes per second.

    overhead: seconds of an operation that does nothing.
    """

    operations: float
    moved: float
    overhead: float


def rates(device: torch.device, dtype: torch.dtype) -> Rates:
    """Measure the rates of this machine with torch's number of threads. Takes a moment."""
    matrix = torch.rand(_MATRIX_SIDE, _MATRIX_SIDE, device=device).to(dtype)
    source = torch.zeros(_COPIED_BYTES // 4, device=device)
    target, small = torch.empty_like(source), torch.zeros(1, device=device)
    overhead = _seconds(lambda: small.add_(1), device)
    return Rates(
        operations=2 * _MATRIX_SIDE**3 / _seconds(lambda: matrix @ matrix, device),
        moved=2 * _COPIED_BYTES / _seconds(lambda: target.copy_(source), device),
        overhead=overhead,
    )


def _seconds(operation: Callable[[], object], device: torch.device) -> float:
    found = []
    for _ in range(_RUNS + 1):
        began = time.perf_counter()
        operation()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])


class StageEstimate(PassRecorder):
    """Sums the estimated seconds of the operations of each module."""

    def __init__(self, rates: Rates) -> None:
        self._operations = _Operations(rates)
        self.forward_seconds: Mapping[int, list[float]] = defaultdict(list)
        self.backward_seconds: Mapping[int, list[float]] = defaultdict(list)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        """Estimate a module's forward pass."""
        self._operations.seconds = 0.0
        with self._operations:
            yield
        self.forward_seconds[number].append(self._operations.seconds)

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        """Estimate a module's backward pass."""
        self._operations.seconds = 0.0
        with self._operations:
            yield
        self.backward_seconds[number].append(self._operations.seconds)


class _Operations(TorchDispatchMode):  # type: ignore[misc] # torch types it as Any
    def __init__(self, rates: Rates) -> None:
        super().__init__()
        self._rates = rates
        self.seconds = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        output = func(*args, **given)
        inputs = _storages((args, given))
        outputs = _storages(output)
        if not outputs.keys() <= inputs.keys() or func._schema.is_mutable:  # a view costs nothing
            count = flop_registry.get(func.overloadpacket)
            operations = count(*args, **given, out_val=output) if count else 0
            moved = sum((inputs | outputs).values())
            self.seconds += self._rates.overhead + max(
                operations / self._rates.operations, moved / self._rates.moved
            )
        return output


def _storages(tree: object) -> dict[int, int]:
    """Return the bytes of a tree's tensors, by storage."""
    return {
        int(leaf.untyped_storage()._cdata): leaf.numel() * leaf.element_size()
        for leaf in tree_leaves(tree)
        if isinstance(leaf, torch.Tensor)
    }


# Models without storage ---------------------------------------------------------------------


def unmaterialised(make: Callable[[], nn.Module], sample: Sample) -> tuple[nn.Module, Sample]:
    """Return a model and a sample without storage. Raises ParallelError, and errors of `make`."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            model = make()
    except RuntimeError:  # torch cannot swap fake parameters, as in `model.to(torch.bfloat16)`
        model = _without_storage(make)
        _make_fake(model, mode)
    return model, sample.map_tensors(mode.from_tensor)


def _without_storage(make: Callable[[], nn.Module]) -> nn.Module:
    try:
        with torch.device("meta"):
            return make()
    except RuntimeError as error:
        raise ParallelError(
            f"the model cannot be created without its weights ({error}): set their dtype and "
            "device when they are created (nn.Linear(..., dtype=...)), or use the profile "
            "'measured'"
        ) from error


def _make_fake(model: nn.Module, mode: FakeTensorMode) -> None:
    """Replace parameters and buffers by fake CPU tensors; tied ones stay tied."""
    known: dict[int, torch.Tensor] = {}

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in known:
            with mode:
                like = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, nn.Parameter):
                like = nn.Parameter(like, requires_grad=tensor.requires_grad)
            known[id(tensor)] = like
        return known[id(tensor)]

    for module in model.modules():
        for held in (module._parameters, module._buffers):
            held.update({name: fake(each) for name, each in held.items() if each is not None})
