"""Torch tensors as numpy arrays of the same bytes, and back. Imports without torch.

numpy has no bfloat16, no float8 and no complex32. Such tensors are sent as integers of the same
bits, with the name of their type beside them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.errors import DataError

Array = npt.NDArray[Any]

#: The torch types that numpy lacks, and the integer types of the same size.
BITS = {
    "bfloat16": "int16",
    "complex32": "int32",
    "float8_e4m3fn": "int8",
    "float8_e4m3fnuz": "int8",
    "float8_e5m2": "int8",
    "float8_e5m2fnuz": "int8",
    "float8_e8m0fnu": "int8",
    "float4_e2m1fn_x2": "int8",
}
#: The types that both have.
SHARED = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
#: Looking up a dtype is 20 times as fast as reading its name.
_SHARED_DTYPES = frozenset(map(np.dtype, SHARED))


def is_tensor(value: object) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_plain_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of torch's own class, and dense memory."""
    torch = sys.modules.get("torch")
    return (
        torch is not None
        and type(value) is torch.Tensor
        and value.layout is torch.strided
        and not value.is_nested
    )


def codec_name(value: Any) -> str:
    """Return the name of the codec for nested or sparse tensors, "" for other values."""
    if not is_tensor(value):
        return ""
    if value.is_nested:
        return "torch.nested"
    return "" if value.layout is sys.modules["torch"].strided else "torch.sparse"


def check_sendable(tensor: Any) -> None:
    """Raise DataError for tensors without values, or of a type that cannot be sent."""
    name = _type_name(tensor)
    if name not in BITS and name not in SHARED:
        raise DataError(
            f"a batch holds a tensor of type {name}, which cannot be sent: return its integers "
            "(int_repr(), or view(torch.uint8)) and its scale"
        )
    if tensor.device.type == "meta":
        raise DataError("a batch holds a tensor on the device meta, which has no values to send")


def as_array(tensor: Any) -> tuple[Array, str]:
    """Return a tensor's values, and the name of its type if numpy lacks it ("" if not).

    Shares the tensor's memory when that is contiguous and on the CPU. Raises DataError for tensors
    that cannot be sent.
    """
    with contextlib.suppress(RuntimeError, TypeError):  # with autograd, lazy, of other types
        return tensor.numpy(), ""
    check_sendable(tensor)
    # Drop autograd state, and resolve lazy conjugation and negation.
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    name = _type_name(plain)
    if name in BITS:
        import torch

        return plain.view(getattr(torch, BITS[name])).numpy(), name
    return plain.numpy(), ""


def as_tensor(array: Array, name: str = "") -> Any:
    """Return an array as a torch tensor over the same memory.

    name: of a type that numpy lacks. Arrays of types that torch lacks (strings, dates, longdouble)
    are returned as they are. Raises DataError when this process cannot make the tensor.
    """
    dtype = array.dtype
    if dtype not in _SHARED_DTYPES:
        if dtype.isnative or dtype.newbyteorder("=") not in _SHARED_DTYPES:
            return array
        array = array.astype(dtype.newbyteorder("="))
    try:
        import torch  # reached only if the script imported torch or tensors were sent
    except ImportError as error:
        raise DataError(
            f"a batch holds tensors, and {sys.executable} has no torch: use an image that has it, "
            "or DataLoader(..., tensors=False)"
        ) from error
    if array.size == 0:  # empty numpy arrays may have strides of 0, which torch tensors cannot
        tensor = torch.empty(array.shape, dtype=getattr(torch, array.dtype.name))
    else:
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy("K"))
    if not name:
        return tensor
    if name not in BITS or not hasattr(torch, name):
        raise DataError(
            f"a batch holds a tensor of type {name!r}, which torch {torch.__version__} on this "
            "host does not have: use one image for both groups"
        )
    return tensor.view(getattr(torch, name))


def with_grad(tensor: Any) -> Any:
    """Return a tensor as one that requires gradients; raises ValueError for one of integers."""
    try:
        return tensor.requires_grad_(True)
    except (RuntimeError, AttributeError) as error:
        raise ValueError(f"no tensor that can require gradients: {error}") from error


def _type_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def as_arrays(batch: object) -> object:
    """Return a batch with lists as tuples, and texts and torch tensors as arrays.

    Arrays share the tensors' memory. A sequence of texts, as collating makes it, is one array of
    objects: arrays of fixed strings would cut zeros at the end of bytes.

    Raises DataError for tensors of types that numpy lacks.
    """
    if isinstance(batch, dict):
        return {key: as_arrays(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        if batch and all(isinstance(each, (str, bytes)) for each in batch):
            return np.array(batch, dtype=object)
        return tuple(as_arrays(value) for value in batch)
    if isinstance(batch, tuple):  # a NamedTuple
        make: Callable[..., object] = type(batch)
        return make(*(as_arrays(value) for value in batch))
    if not is_tensor(batch):
        return batch
    array, name = as_array(batch)
    if name:
        raise DataError(
            f"a batch holds a tensor of type {name}, which numpy does not have: convert it in the "
            "dataset, for example to float32"
        )
    return array
