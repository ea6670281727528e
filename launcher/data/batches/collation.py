"""Collating samples to a batch, by the rules of torch's default_collate, with or without torch.

The result has the types that torch gives: a namedtuple stays one, another tuple becomes a list,
a list stays one, and texts are unchanged. Unlike torch, it also accepts complex numbers,
dataclasses, fixed strings and dates. It differs from torch in one case: ints mixed with floats
become float64, not float32.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.batches.attributed_classes import is_attributed
from launcher.data.batches.codecs.codec_registry import registry
from launcher.data.batches.known_classes import (
    field_names,
    field_values,
    is_plain_dataclass,
    make_instance,
)
from launcher.data.batches.structure import PLAIN_KINDS
from launcher.errors import DataError

Array = npt.NDArray[Any]

_NUMBERS = (bool, int, float, complex)
#: Bytes of a stack from which on it is made in `batch_memory`.
LARGE_BATCH = 1 << 20
#: Numbers in a batch from which on torch stacks tensors with several threads.
_LARGE = 1 << 20
#: torch's number of threads before dataset code was limited to one; 1 where it is not limited.
torch_threads: ContextVar[int] = ContextVar("torch's threads", default=1)
#: Returns memory of a size in bytes that a large batch is to be sent from, or None; the same memory
#: again and again, since new memory for each batch was measured to cost several times the copy.
batch_memory: ContextVar[Callable[[int], Array | None] | None] = ContextVar(
    "memory for batches", default=None
)
_importer = os.getpid()


def collate(samples: Sequence[Any]) -> Any:
    """Collate samples to one batch.

    Arrays, tensors and numbers are stacked along a new first axis; Python floats become float64
    and ints int64; dicts, dataclasses, namedtuples, tuples and lists are collated part by part;
    str and bytes are left as they are. Raises DataError for anything else, and for shapes that
    differ.
    """
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, (np.ndarray, np.generic)):
        _check_masks(samples)
        return _stack([np.asarray(sample) for sample in samples])
    if isinstance(first, _NUMBERS):
        return _numbers(samples)
    if isinstance(first, Mapping):
        return _collate_mapping(samples)
    if tensors.is_tensor(first):
        return _stack_tensors(samples)
    if isinstance(first, Sequence):
        return _collate_elements(samples)
    if is_plain_dataclass(type(first)):
        return _collate_fields(samples)
    raise DataError(
        f"a sample holds a {type(first).__name__}; batches are made of arrays, tensors, numbers, "
        "str, bytes, and tuples, lists, dicts, namedtuples and dataclasses of these: convert it "
        "in the dataset, or give the loader a collate_fn"
    )


def _collate_mapping(samples: Sequence[Any]) -> Any:
    first = samples[0]
    parts = {key: collate([sample[key] for sample in samples]) for key in first}
    if type(first) is dict:
        return parts
    parts = _in_pickle(type(first), parts)
    with contextlib.suppress(TypeError):
        if not isinstance(first, MutableMapping):
            return type(first)(parts)
        clone = copy.copy(first)  # keeps what the class holds beside its items, as torch does
        clone.update(parts)
        return clone
    return parts


def _collate_fields(samples: Sequence[Any]) -> Any:
    _check_one_class(samples)
    kind, names = type(samples[0]), field_names(type(samples[0]))
    values = [collate(list(part)) for part in zip(*map(field_values, samples), strict=True)]
    return make_instance(kind, names, values)


def _collate_elements(samples: Sequence[Any]) -> Any:
    first = samples[0]
    if is_named := hasattr(first, "_fields"):
        _check_one_class(samples)
    if len(sizes := sorted({len(sample) for sample in samples})) > 1:
        raise DataError(
            f"the samples of a batch have different numbers of parts, {sizes[0]} and {sizes[1]}: "
            "make them alike in the dataset, or give the loader a collate_fn"
        )
    parts = [collate(part) for part in zip(*samples, strict=True)]
    if is_named:
        return type(first)._make(parts)
    return parts if isinstance(first, tuple) or type(first) is list else _like(first, parts)


def _like(first: Any, parts: list[Any]) -> Any:
    """Return the parts as a sequence of the first one's class; as a list where that has no room."""
    parts = _in_pickle(type(first), parts)
    with contextlib.suppress(TypeError):
        if not isinstance(first, MutableSequence):
            return type(first)(parts)
        clone = copy.copy(first)  # keeps what the class holds beside its items, as torch does
        for place, part in enumerate(parts):
            clone[place] = part
        return clone
    return parts


def _in_pickle(kind: type, parts: Any) -> Any:
    """Return the parts of a container; as tensors if it has no codec, since it may be pickled."""
    if "torch" not in sys.modules or registry.of(kind) is not None or is_attributed(kind):
        return parts
    return _as_tensors(parts)


def _as_tensors(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return tensors.as_tensor(part)
    if type(part) is dict:
        return {key: _as_tensors(each) for key, each in part.items()}
    if type(part) is list:
        return list(map(_as_tensors, part))
    return type(part)._make(map(_as_tensors, part)) if hasattr(part, "_make") else part


def _numbers(samples: Sequence[object]) -> Array:
    array = np.asarray(samples)
    if array.dtype.kind not in "bifc" or any(_is_beyond_64_bits(sample) for sample in samples):
        raise DataError(
            f"the samples of a batch hold numbers that do not fit into 64 bits, or are not alike: "
            f"{list(samples)[:4]}; let the dataset return numbers of one kind"
        )
    return array


def _is_beyond_64_bits(number: object) -> bool:
    return isinstance(number, int) and not -(1 << 63) <= number < 1 << 63


def _stack(arrays: list[Array]) -> Array:
    _check_shapes([array.shape for array in arrays])
    stacked = np.stack(arrays, out=_memory_of_arrays(arrays))
    # It has their order of axes, which torch's has not.
    return stacked if stacked.flags.c_contiguous else np.ascontiguousarray(stacked)


def _memory_of_arrays(arrays: list[Array]) -> Array | None:
    """Return memory for a large stack, if the arrays are such that it is as without it."""
    first, memory_for = arrays[0], batch_memory.get()
    if memory_for is None or first.nbytes * len(arrays) < LARGE_BATCH:
        return None
    if first.dtype.kind not in PLAIN_KINDS:
        return None
    if not first.dtype.isnative or any(
        each.dtype != first.dtype or not each.flags.c_contiguous for each in arrays
    ):
        return None
    memory = memory_for(first.nbytes * len(arrays))
    return None if memory is None else memory.view(first.dtype).reshape(-1, *first.shape)


def _memory_of_tensors(samples: Sequence[Any]) -> Any:
    """Return memory for a large stack, if the tensors are such that it is as without it."""
    first, memory_for = samples[0], batch_memory.get()
    if memory_for is None or first.nbytes * len(samples) < LARGE_BATCH:
        return None
    if not all(
        tensors.is_plain_tensor(each)
        and (each.dtype, each.shape, each.device.type) == (first.dtype, first.shape, "cpu")
        and each.is_contiguous()
        and not (each.requires_grad or each.is_conj() or each.is_neg() or each.is_quantized)
        for each in samples
    ):
        return None
    memory = memory_for(first.nbytes * len(samples))
    if memory is None:
        return None
    return tensors.as_tensor(memory).view(first.dtype).view(len(samples), *first.shape)


def _stack_tensors(samples: Sequence[Any]) -> Any:
    import torch  # the code that made the samples has already imported it

    if name := tensors.codec_name(samples[0]):
        raise DataError(
            f"a sample holds a tensor of the kind {name}, of which neither torch nor this loader "
            "makes batches by itself: give the loader a collate_fn, or return to_dense()"
        )
    is_large = samples[0].numel() * len(samples) > _LARGE
    try:
        with copying_threads() if is_large else contextlib.nullcontext():
            return torch.stack(samples, out=_memory_of_tensors(samples))
    except (RuntimeError, TypeError, NotImplementedError):
        for sample in samples:
            if not tensors.is_tensor(sample):
                raise _unlike(samples[0], sample) from None
            tensors.check_sendable(sample)
        _check_shapes([tuple(sample.shape) for sample in samples])
        raise


def _check_one_class(samples: Sequence[object]) -> None:
    """Raise DataError for samples of several classes, whose fields may mean different things."""
    for sample in samples:
        if type(sample) is not type(samples[0]):
            raise _unlike(samples[0], sample)


def _unlike(one: object, other: object) -> DataError:
    return DataError(
        f"the samples of a batch hold a {type(one).__name__} and a {type(other).__name__}: make "
        "them alike in the dataset, or give the loader a collate_fn"
    )


def _check_masks(samples: Sequence[object]) -> None:
    """Raise DataError for arrays with masked values, whose masks stacking would lose."""
    has_masks = any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, samples)))
    if has_masks and any(map(np.ma.is_masked, samples)):
        raise DataError(
            "a sample holds an array with masked values, and the mask would be lost: return "
            "filled(), or its data and its mask, or give the loader a collate_fn that calls "
            "np.ma.stack"
        )


def _check_shapes(shapes: list[tuple[int, ...]]) -> None:
    if len(different := sorted(set(shapes))) > 1:
        raise DataError(
            f"the samples of a batch have different shapes, {different[0]} and {different[1]}: "
            "make them equal in the dataset, or give the loader a collate_fn that returns a list"
        )


@contextlib.contextmanager
def copying_threads() -> Iterator[None]:
    """Let torch copy with the threads that it had before dataset code was limited to one.

    A sum on two threads differs in its last bits, but a copy is the same with any number of them. A
    fork keeps to one: its OpenMP waits for ever for threads that only its parent has.
    """
    if (count := torch_threads.get()) == 1 or os.getpid() != _importer:
        yield
        return
    torch = sys.modules["torch"]
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)
