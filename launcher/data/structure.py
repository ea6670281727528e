"""Batches as JSON plus arrays: collating samples, taking a batch apart, putting it together.

A batch is any nesting of lists, tuples and dicts over arrays, str, bytes and None. Its *tree* is
JSON with a reference to an array at each leaf that has one, so nothing that crosses the wire is
ever unpickled, imported or executed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.errors import DataError, WireError

Array = npt.NDArray[Any]

_NUMBERS = (bool, int, float, complex)
#: What JSON gives back as it was, in a list.
_KEYS = (str, int, float, bool, type(None))


def collate(samples: Sequence[Any]) -> Any:
    """Samples to one batch, by the rules of torch's default_collate, in numpy.

    Arrays, tensors and numbers are stacked along a new first axis; Python floats become float64
    and ints int64; dicts are collated by key, tuples and lists by place (into lists); str and
    bytes stay lists. Raises DataError for anything else, and for shapes that differ.
    """
    first = samples[0]
    if _is_tensor(first):
        return _stack([sample.detach().cpu().numpy() for sample in samples])
    if isinstance(first, (np.ndarray, np.generic)):
        return _stack([np.asarray(sample) for sample in samples])
    if isinstance(first, _NUMBERS):
        return np.asarray(samples)
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in samples):
            raise DataError("the samples of a batch have different numbers of parts")
        return [collate(part) for part in zip(*samples, strict=True)]
    raise DataError(
        f"a sample holds a {type(first).__name__}; batches are made of arrays, tensors, numbers, "
        "str, bytes, and tuples, lists and dicts of these"
    )


def _stack(arrays: list[Array]) -> Array:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise DataError(
            f"the samples of a batch have different shapes, {sorted(shapes)[0]} and "
            f"{sorted(shapes)[1]}: make them equal in the dataset"
        )
    return np.stack(arrays)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def take_apart(batch: Any) -> tuple[Any, list[Array]]:
    """A batch to its tree and its arrays (contiguous, little-endian); the inverse of `rebuild`."""
    arrays: list[Array] = []
    return _take_apart(batch, arrays), arrays


def _take_apart(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise DataError("a batch holds an array of Python objects, which cannot be sent")
        arrays.append(np.ascontiguousarray(value).reshape(value.shape))
        return {"array": len(arrays) - 1}
    if value is None or isinstance(value, (str, bool, int, float)):
        return {"value": value}
    if _is_tensor(value):
        return _take_apart(value.detach().cpu().numpy(), arrays)
    if isinstance(value, np.generic):
        return _take_apart(np.asarray(value), arrays)
    if isinstance(value, bytes):
        arrays.append(np.frombuffer(value, np.uint8))
        return {"bytes": len(arrays) - 1}
    if isinstance(value, dict):
        if odd := [key for key in value if not isinstance(key, _KEYS)]:
            raise DataError(
                f"a batch holds a dict with the key {odd[0]!r}, a {type(odd[0]).__name__}; keys "
                "are str, int, float, bool or None"
            )
        parts = [_take_apart(part, arrays) for part in value.values()]
        return {"dict": list(value), "parts": parts}
    kind = "tuple" if isinstance(value, tuple) else "list"
    return {kind: [_take_apart(part, arrays) for part in value]}


def rebuild(tree: Any, arrays: Sequence[Array], leaf: Callable[[Array], Any]) -> Any:
    """A batch from its tree; `leaf` turns each array into what the user gets."""
    try:
        return _rebuild(tree, arrays, leaf)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise WireError(f"a batch whose tree does not fit its arrays: {error!r}") from error


def _rebuild(tree: Any, arrays: Sequence[Array], leaf: Callable[[Array], Any]) -> Any:
    if "array" in tree:
        return leaf(arrays[tree["array"]])
    if "value" in tree:
        return tree["value"]
    if "bytes" in tree:
        return arrays[tree["bytes"]].tobytes()
    if "dict" in tree:
        parts = (_rebuild(part, arrays, leaf) for part in tree["parts"])
        return dict(zip(tree["dict"], parts, strict=True))
    if "tuple" in tree:
        return tuple(_rebuild(part, arrays, leaf) for part in tree["tuple"])
    return [_rebuild(part, arrays, leaf) for part in tree["list"]]


def as_tensor(array: Array) -> Any:
    """An array as a torch tensor over the same memory."""
    import torch  # only a script that has imported torch itself gets here

    return torch.from_numpy(array)
