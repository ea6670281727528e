"""Models with shapes but without storage, for estimates: torch's fake tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from launcher.errors import ParallelError
from launcher.parallel.profiling.module_costs import Sample


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
