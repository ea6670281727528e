"""Objects without a codec as pickles, where the script allows that: DataLoader(allow_pickle=True).

Protocol 5, whose large buffers stay arrays of the batch: those of numpy, and the memory of tensors.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches.class_names import running_script, script_module
from launcher.errors import DataError

Array = npt.NDArray[Any]
_PROTOCOL = 5


def pickled(value: object) -> list[Array]:
    """Return the pickle of an object and its buffers; raises DataError where pickle does."""
    written = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    try:
        _Pickler(written, _PROTOCOL, buffer_callback=buffers.append).dump(value)
    except Exception as error:
        raise DataError(
            f"a batch holds a {type(value).__qualname__} of {type(value).__module__}, which pickle "
            f"cannot write: {error!r}"
        ) from error
    return [np.frombuffer(each, np.uint8) for each in (written.getbuffer(), *map(_raw, buffers))]


def unpickled(arrays: Sequence[Array]) -> object:
    """Invert `pickled`: imports and calls what the pickle names; raises DataError if that fails."""
    first, *buffers = (array.data for array in arrays)
    try:
        return _Unpickler(io.BytesIO(first), buffers=buffers).load()
    except Exception as error:
        raise DataError(
            f"a pickled part of a batch could not be read: {error!r}; both groups need the same "
            "packages and code"
        ) from error


def imported_class(name: str) -> object:
    """Return what a class's name, "module:Name", leads to, as pickle does; None for nothing."""
    module, _, path = name.partition(":")
    with contextlib.suppress(ImportError, AttributeError):
        found: object = _home(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found
    return None


def _raw(buffer: pickle.PickleBuffer) -> memoryview:
    return buffer.raw()


def _home(module: str) -> object:
    """Import a module; the running script is the one by its file's name, too."""
    return running_script() if module == script_module() else importlib.import_module(module)


class _Pickler(pickle.Pickler):
    """Writes the memory of tensors as arrays, whose bytes leave the pickle."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.storage.TypedStorage):
            return NotImplemented
        memory = torch.empty(0, dtype=torch.uint8).set_(value._untyped_storage.cpu())
        return _storage, (memory.numpy(), str(value.dtype).removeprefix("torch."))


class _Unpickler(pickle.Unpickler):
    """Finds the script's own classes in the running script."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == script_module() else module, name)


def _storage(memory: Array, dtype: str) -> object:
    """Create a tensor's memory."""
    import torch

    untyped = (torch.from_numpy(memory) if memory.size else torch.empty(0)).untyped_storage()
    make: Callable[..., object] = torch.storage.TypedStorage
    return make(wrap_storage=untyped, dtype=getattr(torch, dtype), _internal=True)
