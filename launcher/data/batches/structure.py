"""Batches as JSON plus arrays: disassembly and reassembly.

A batch is any nesting of lists, tuples, dicts, namedtuples and dataclasses over arrays, tensors,
numbers, str, bytes and None. Its *tree* is JSON, so nothing that crosses the wire is ever
unpickled, imported or executed. A str, an int of 64 bits, a float, a bool and None represent
themselves, and a list begins with its kind:

    ["array", i]  ["tensor", i]  ["tensor", i, "bfloat16"]  ["scalar", i]      of array i
    ["bytes", i]  ["text", i]                                                  in array i
    ["int", "0x..."]  ["complex", real, imaginary]
    ["list", part, ...]  ["tuple", part, ...]  ["dict", key, value, ...]
    ["class", "Name", ["field", ...], part, ...]
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.batches.collation import make_dataclass
from launcher.errors import DataError, WireError

Array = npt.NDArray[Any]

#: numpy's kinds of plain data: bool, integers, floats, complex, fixed strings, dates.
PLAIN_KINDS = frozenset("biufcSUmM")
#: Levels of nesting. The JSON parser has a limit of its own, which the other side must not hit.
MAX_DEPTH = 64
#: Longer texts are sent as bytes.
_LONG_TEXT = 4096
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = (float, bool, type(None))
_KEYS = (str, bytes, int, complex, *_PLAIN)


def disassemble(batch: object) -> tuple[Any, list[Array]]:
    """Disassemble a batch into its tree and its contiguous arrays; `Assembly.rebuild` inverts it.

    Raises DataError for anything that cannot be sent.
    """
    arrays: list[Array] = []
    return _disassemble(batch, arrays, MAX_DEPTH), arrays


def _disassemble(value: Any, arrays: list[Array], levels: int) -> Any:
    if isinstance(value, np.ndarray):
        return ["array", _add(value, arrays)]
    if tensors.is_tensor(value):
        array, name = tensors.as_array(value)
        return ["tensor", _add(array, arrays), *([name] if name else [])]
    kind = type(value)
    if kind is str or kind is np.str_:
        return _text(str(value), arrays)
    if kind is bytes or kind is np.bytes_:
        return ["bytes", _add_bytes(value, arrays)]
    if isinstance(value, np.generic):
        return ["scalar", _add(np.asarray(value), arrays)]
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if value.bit_length() < 64 else ["int", hex(value)]
    if kind is complex:
        return ["complex", value.real, value.imag]
    return _disassemble_container(value, arrays, _below(levels))


def _below(levels: int) -> int:
    if levels == 0:
        raise DataError(f"a batch is nested more than {MAX_DEPTH} deep, or holds itself")
    return levels - 1


def _disassemble_container(value: object, arrays: list[Array], levels: int) -> Any:
    if isinstance(value, Mapping):
        parts = []
        for key, part in value.items():
            parts += [_key(key, arrays, levels), _disassemble(part, arrays, levels)]
        return ["dict", *parts]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _named(type(value), value._fields, value, arrays, levels)
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, *[_disassemble(part, arrays, levels) for part in value]]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return _named(type(value), names, [getattr(value, n) for n in names], arrays, levels)
    raise DataError(
        f"a batch holds a {type(value).__qualname__}, which cannot be sent: make it an array, a "
        "tensor, a number, str, bytes, or a list, tuple, dict, namedtuple or dataclass of these"
    )


def _named(
    kind: type, names: Sequence[str], values: Sequence[object], arrays: list[Array], levels: int
) -> Any:
    parts = [_disassemble(value, arrays, levels) for value in values]
    return ["class", kind.__qualname__, list(names), *parts]


def _key(key: object, arrays: list[Array], levels: int) -> Any:
    if type(key) is tuple:
        return ["tuple", *[_key(part, arrays, _below(levels)) for part in key]]
    if type(key) in _KEYS or isinstance(key, np.generic):
        return _disassemble(key, arrays, levels)
    raise DataError(
        f"a batch holds a dict with the key {key!r}, a {type(key).__name__}; keys are str, bytes, "
        "numbers, bool, None, and tuples of these"
    )


def _text(text: str, arrays: list[Array]) -> Any:
    # JSON joins two surrogates into one character, which would be a different str.
    if len(text) > _LONG_TEXT or (not text.isascii() and _SURROGATE.search(text)):
        return ["text", _add_bytes(text.encode("utf-8", "surrogatepass"), arrays)]
    return text


def _add_bytes(data: bytes, arrays: list[Array]) -> int:
    return _add(np.frombuffer(data, np.uint8), arrays)


def _add(array: Array, arrays: list[Array]) -> int:
    if array.dtype.kind not in PLAIN_KINDS:
        raise DataError(
            f"a batch holds an array of type {array.dtype}, which cannot be sent: make it one of "
            "numbers, bools, dates or fixed strings (astype), or a dict of them"
        )
    if hasattr(array, "mask"):
        raise DataError("a batch holds a masked array: send its data and its mask as two arrays")
    arrays.append(np.ascontiguousarray(array).reshape(array.shape))
    return len(arrays) - 1


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Settings for rebuilding batches.

    tensors: True converts arrays to tensors, False converts tensors to arrays, and None keeps each
        as it was. types: the NamedTuple and dataclass classes that batches may hold.
    """

    tensors: bool | None = None
    types: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        for kind in self.types:
            if not isinstance(kind, type) or not (_is_named_tuple(kind) or _is_dataclass(kind)):
                raise DataError(
                    f"types has {kind!r}, which is neither a NamedTuple nor a dataclass"
                )
        if len(self._by_name()) < len(set(self.types)):
            raise DataError(f"types has two classes of one name; rename one: {self.types}")

    def rebuild(self, tree: object, arrays: Sequence[Array]) -> Any:
        """Rebuild a batch from its tree.

        Raises WireError for a tree that does not fit its arrays, and DataError for parts that this
        process cannot create.
        """
        try:
            return self._rebuild(tree, arrays)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise WireError(f"a batch whose tree does not fit its arrays: {error!r}") from error

    def _rebuild(self, tree: object, arrays: Sequence[Array]) -> Any:
        if not isinstance(tree, list):
            if isinstance(tree, dict):
                raise WireError("a batch whose tree holds an object")
            return tree
        kind = tree[0]
        if kind == "array" or kind == "tensor" or kind == "scalar":
            return self._array(arrays, *tree)
        if kind == "list":
            return [self._rebuild(part, arrays) for part in tree[1:]]
        if kind == "tuple":
            return tuple([self._rebuild(part, arrays) for part in tree[1:]])
        if kind == "dict":
            keys = [_AS_GIVEN._rebuild(part, arrays) for part in tree[1::2]]
            values = [self._rebuild(part, arrays) for part in tree[2::2]]
            return dict(zip(keys, values, strict=True))
        if kind == "class":
            _, name, fields, *values = tree
            return self._instance(name, fields, [self._rebuild(part, arrays) for part in values])
        return _scalar_part(arrays, *tree)

    def _array(self, arrays: Sequence[Array], kind: str, index: int, name: str = "") -> Any:
        array = _at(arrays, index)
        if self.tensors or (self.tensors is None and kind == "tensor"):
            return tensors.as_tensor(array, name)
        if name:
            raise DataError(
                f"a batch holds a tensor of type {name}, which numpy does not have: let the loader "
                "give tensors (import torch before it is made, or tensors=True), or convert it in "
                "the dataset"
            )
        return array[()] if kind == "scalar" else array

    def _instance(self, name: str, fields: list[str], values: Sequence[object]) -> Any:
        kind = self._by_name().get(name)
        if kind is None:
            raise DataError(
                f"a batch holds a {name}, a class that this loader does not know: import it in the "
                f"script and add it, DataLoader(..., types=[{name}])"
            )
        known = _fields(kind)
        if known != fields or len(fields) != len(values):
            raise DataError(
                f"a batch holds a {name} with the fields {fields}, and types has one with {known}: "
                "both sides must use one class"
            )
        if _is_named_tuple(kind):
            return kind._make(values)  # type: ignore[attr-defined] # a NamedTuple's
        return make_dataclass(kind, fields, values)

    def _by_name(self) -> dict[str, type]:
        return {kind.__qualname__: kind for kind in self.types}


#: Keys keep their types, whatever the values are converted to.
_AS_GIVEN = Assembly()


def _scalar_part(arrays: Sequence[Array], kind: str, what: Any, *more: Any) -> Any:
    if kind == "bytes":
        return _at(arrays, what).tobytes()
    if kind == "text":
        return _at(arrays, what).tobytes().decode("utf-8", "surrogatepass")
    if kind == "int":
        return int(what, 16)
    if kind == "complex":
        return complex(what, *more)
    raise WireError(f"a batch whose tree holds a {kind!r}")


def _at(arrays: Sequence[Array], index: int) -> Array:
    if index < 0:
        raise IndexError(index)
    return arrays[index]


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


def _fields(kind: type) -> list[str]:
    if _is_named_tuple(kind):
        return list(kind._fields)  # type: ignore[attr-defined] # a NamedTuple's
    return [field.name for field in dataclasses.fields(kind)]
