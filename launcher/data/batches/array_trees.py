"""Batches as the frameworks beside torch take them: tuples and dicts of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from launcher.data.batches import tensors
from launcher.errors import DataError


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
    if not tensors.is_tensor(batch):
        return batch
    array, name = tensors.as_array(batch)
    if name:
        raise DataError(
            f"a batch holds a tensor of type {name}, which numpy does not have: convert it in the "
            "dataset, for example to float32"
        )
    return array
