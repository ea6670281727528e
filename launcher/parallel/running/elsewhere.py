"""Parameters and buffers that this rank does not hold: whatever needs their values raises by name.

They keep their shapes, so that code which only counts, freezes or skips them works.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from launcher.errors import ParallelError

#: Properties whose values are those of the tensor.
_VALUES = {"T", "H", "mT", "mH", "real", "imag"}
#: Methods and functions that do not read values.
_DESCRIBING = {
    *("size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "get_device"),
    *("storage_offset", "untyped_storage", "is_contiguous", "is_floating_point", "is_complex"),
    *("is_signed", "is_shared", "is_pinned", "is_inference", "requires_grad_", "register_hook"),
    *("register_post_accumulate_grad_hook", "retain_grad", "__len__", "is_same_size"),
}
#: Changes in place that draw random numbers: skipping one would change all later draws.
_DRAWING = {
    *("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_"),
    *("log_normal_", "dropout_", "alpha_dropout_", "feature_dropout_", "rrelu_"),
}
#: The file of torch.nn.utils.clip_grad_norm_.
_CLIPPING = str(Path("nn", "utils", "clip_grad.py"))
#: Changes in place of what a tensor is, not of its values.
_REPLACING = {"set_", "resize_", "resize_as_", "share_memory_", "swap_"}


class _Elsewhere:
    """A tensor whose values are on another rank.

    Changes in place do nothing here: the rank that holds the values makes them.

    why: where the values are, and what to do instead.
    """

    why: str

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Run a function that needs no values; skip one that changes this tensor in place."""
        name, first = func.__name__, args[0] if args else None
        if name == "__get__":
            return cls._get(func, args, kwargs)
        is_own = isinstance(first, _Elsewhere)
        if name == "__set__" and is_own:
            return cls._set(func, first, args, kwargs)
        if name in _DESCRIBING:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        if name != "detach" and not (is_own and _is_in_place(name)):
            refuse(args, kwargs)
        return first

    @classmethod
    def _get(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> object:
        name = func.__self__.__name__
        if name in _VALUES:
            refuse(args, kwargs)
        if name == "data":
            return args[0]
        if name == "grad" and (isinstance(args[0], _Superseded) or _is_clipped()):
            refuse(args, kwargs)
        return super().__torch_function__(func, (), args, kwargs or {})  # type: ignore[misc]

    @classmethod
    def _set(
        cls, func: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> object:
        name = func.__self__.__name__
        if name == "data":
            return None
        if name == "grad" and args[1] is not None:
            refuse(args, kwargs)
        return super().__torch_function__(func, (), args, kwargs or {})  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<{self.why}>"

    def __deepcopy__(self, memo: object) -> NoReturn:
        refuse((self,))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        refuse((self,))


class _Superseded(_Elsewhere):
    """A parameter that another one has replaced: also its gradient, which it never gets, raises."""


def _is_clipped() -> bool:
    """Return whether torch's clip_grad_norm_ reads a gradient: it would lack those of others."""
    frame = sys._getframe(3)
    if not frame.f_code.co_filename.endswith(_CLIPPING):
        return False
    names = {frame.f_code.co_name, frame.f_back.f_code.co_name if frame.f_back else ""}
    return "clip_grad_norm_" in names


def _is_in_place(name: str) -> bool:
    is_operator = name.startswith("__i") and name != "__int__" and name != "__index__"
    is_method = name.endswith("_") and not name.endswith("__")
    return is_operator or name == "__setitem__" or (is_method and name not in _DRAWING | _REPLACING)


def refuse(*given: object) -> NoReturn:
    """Raise ParallelError for the first tensor in some arguments that is not here."""
    leaves = torch.utils._pytree.tree_leaves(given)
    raise ParallelError(next(each.why for each in leaves if isinstance(each, _Elsewhere)))


def is_elsewhere(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values are on another rank, or in a tensor that has replaced it."""
    return isinstance(tensor, _Elsewhere)


def send_elsewhere(tensor: torch.Tensor, why: str) -> None:
    """Free a tensor's memory, in place; its values are on another rank from now on."""
    if not tensor.is_meta:
        tensor.data = _without_memory(tensor)
    _become(tensor, _Elsewhere, why)


def replace(parameter: torch.nn.Parameter, why: str) -> None:
    """Free the memory of a parameter that others replace, in place; optimizers refuse it."""
    if not parameter.is_meta and parameter.untyped_storage().nbytes():
        parameter.data = torch.empty(0, dtype=parameter.dtype, device=parameter.device)
    _become(parameter, _Superseded, why)


def _become(tensor: torch.Tensor, kind: type[_Elsewhere], why: str) -> None:
    if isinstance(tensor, kind):  # a tied one, by another of its names
        return
    vars(tensor)["why"] = why
    tensor.__class__ = _class((kind, type(tensor)))


@functools.cache
def _class(bases: tuple[type, ...]) -> Any:
    of = bases[-1]
    return type(of)(of.__name__, bases, {"__module__": of.__module__})


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape and dtype with a single element, which is NaN."""
    if tensor.layout is not torch.strided:
        return torch.empty(0, dtype=tensor.dtype)
    element = torch.zeros((), dtype=tensor.dtype)
    if tensor.is_floating_point() or tensor.is_complex():
        element.fill_(float("nan"))
    return element.expand(tensor.shape)
