"""Batches as JSON plus arrays: their disassembly, which `assembly` inverts.

A batch is any nesting of lists, tuples, dicts, NamedTuples, dataclasses, enums and objects with a
codec over arrays, tensors, numbers, str, bytes and None. Its *tree* is JSON, so nothing that
crosses the wire is ever unpickled, imported or executed. A str, an int of 64 bits, a float, a bool
and None represent themselves, and a list begins with its kind:

    ["array", i]  ["tensor", i]  ["tensor", i, "bfloat16"]  ["scalar", i]      of array i
    ["bytes", i]  ["text", i]                                                  in array i
    ["int", "0x..."]  ["complex", real, imaginary]
    ["list", part, ...]  ["tuple", part, ...]  ["dict", key, value, ...]
    ["class", "module:Name", ["field", ...], part, ...]  ["enum", "module:Name", "MEMBER"]
    ["codec", "name", content]
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.batches.class_names import reference_to
from launcher.data.batches.codecs.codec_registry import Codec, no_codec, registry
from launcher.data.batches.known_classes import (
    enum_content,
    field_names,
    field_values,
    is_plain_class,
)
from launcher.errors import DataError

Array = npt.NDArray[Any]
#: What JSON can hold.
Tree: TypeAlias = Any

#: numpy's kinds of plain data: bool, integers, floats, complex, fixed strings, dates.
PLAIN_KINDS = frozenset("biufcSUmM")
#: Levels of nesting. The JSON parser has a limit of its own, which the other side must not hit.
MAX_DEPTH = 64
#: Longer texts are sent as bytes.
_LONG_TEXT = 4096
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = frozenset((float, bool, type(None)))


def disassemble(batch: object) -> tuple[Tree, list[Array]]:
    """Disassemble a batch into its tree and its contiguous arrays; `assembly.Assembly` inverts it.

    Raises DataError for anything that cannot be sent.
    """
    arrays: list[Array] = []
    return _disassemble(batch, arrays, MAX_DEPTH), arrays


def _disassemble(value: object, arrays: list[Array], levels: int) -> Tree:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if (disassemble_kind := _KINDS.get(kind)) is not None:
        return disassemble_kind(value, arrays, levels)
    if tensors.is_plain_tensor(value):
        array, name = tensors.as_array(value)
        return ["tensor", _add(array, arrays), *([name] if name else [])]
    name = tensors.codec_name(value)
    if (codec := registry.named(name) if name else registry.of(kind)) is not None:
        return _encoded(codec, value, arrays, _below(levels))
    return _disassemble_object(kind, value, arrays, _below(levels))


def _below(levels: int) -> int:
    if levels == 0:
        raise DataError(f"a batch is nested more than {MAX_DEPTH} deep, or holds itself")
    return levels - 1


# Plain data ------------------------------------------------------------------------------------


def _int(value: int, arrays: list[Array], levels: int) -> Tree:
    return value if value.bit_length() < 64 else ["int", hex(value)]


def _complex(value: complex, arrays: list[Array], levels: int) -> Tree:
    return ["complex", value.real, value.imag]


def _bytes(value: bytes, arrays: list[Array], levels: int) -> Tree:
    return ["bytes", _add_bytes(value, arrays)]


def _text(value: str, arrays: list[Array], levels: int) -> Tree:
    # JSON joins two surrogates into one character, which would be a different str.
    if len(value) > _LONG_TEXT or (not value.isascii() and _SURROGATE.search(value)):
        return ["text", _add_bytes(value.encode("utf-8", "surrogatepass"), arrays)]
    return str(value)


def _array(value: Array, arrays: list[Array], levels: int) -> Tree:
    if value.dtype.kind == "V":
        codec = registry.named("numpy.structured")
        assert codec is not None  # shipped
        return _encoded(codec, value, arrays, _below(levels))
    return ["array", _add(value, arrays)]


def _list(value: list[object], arrays: list[Array], levels: int) -> Tree:
    return ["list", *_parts(value, arrays, _below(levels))]


def _tuple(value: tuple[object, ...], arrays: list[Array], levels: int) -> Tree:
    return ["tuple", *_parts(value, arrays, _below(levels))]


def _parts(values: Sequence[Tree], arrays: list[Array], levels: int) -> Sequence[Tree]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds == _ONLY_INTS and -_LIMIT < min(values) <= max(values) < _LIMIT):
        return values  # long lists of numbers would take a call for each
    return [_disassemble(part, arrays, levels) for part in values]


def _dict(value: dict[object, object], arrays: list[Array], levels: int) -> Tree:
    levels = _below(levels)
    tree: list[Any] = ["dict"]
    for key, part in value.items():
        tree += (_key(key, arrays, levels), _disassemble(part, arrays, levels))
    return tree


def _key(key: object, arrays: list[Array], levels: int) -> Tree:
    if type(key) not in _KINDS and tensors.is_tensor(key):
        raise DataError("a batch holds a dict with a tensor as a key: use its number, item()")
    return _disassemble(key, arrays, levels)


#: The classes of plain data. Others, derived ones included, need a codec or fields of their own.
_KINDS: dict[type, Callable[[Any, list[Array], int], Any]] = {
    int: _int,
    complex: _complex,
    str: _text,
    np.str_: _text,
    bytes: _bytes,
    np.bytes_: _bytes,
    np.ndarray: _array,
    np.memmap: _array,
    list: _list,
    tuple: _tuple,
    dict: _dict,
}
_ONLY_INTS = {int}
_LIMIT = 1 << 63


# Objects ---------------------------------------------------------------------------------------


def _disassemble_object(kind: type, value: object, arrays: list[Array], levels: int) -> Tree:
    if isinstance(value, np.generic):
        return ["scalar", _add(np.asarray(value), arrays)]
    if isinstance(value, enum.Enum):
        return ["enum", reference_to(kind), enum_content(value)]
    if is_plain_class(kind):
        parts = [_disassemble(part, arrays, levels) for part in field_values(value)]
        return ["class", reference_to(kind), field_names(kind), *parts]
    raise no_codec(kind)


def _encoded(codec: Codec, value: object, arrays: list[Array], levels: int) -> Tree:
    try:
        content = codec.encode(value)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"the codec of {codec.name} could not encode a {type(value).__name__}: {error!r}"
        ) from error
    return ["codec", codec.name, _disassemble(content, arrays, levels)]


def _add_bytes(data: bytes, arrays: list[Array]) -> int:
    return _add(np.frombuffer(data, np.uint8), arrays)


def _add(array: Array, arrays: list[Array]) -> int:
    if array.dtype.kind not in PLAIN_KINDS:
        raise DataError(
            f"a batch holds an array of type {array.dtype}, which cannot be sent: make it one of "
            "numbers, bools, dates or fixed strings (astype), or a dict of them"
        )
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    arrays.append(array)
    return len(arrays) - 1
