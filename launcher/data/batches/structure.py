"""Batches as JSON plus arrays: disassembled to be sent, and rebuilt.

A batch is any nesting of lists, tuples, dicts, NamedTuples, dataclasses, enums and objects with a
codec over arrays, tensors, numbers, str, bytes and None. Its *tree* is JSON, so nothing that
crosses the wire is unpickled or executed, unless the script allows pickles. A str, an int of 64
bits, a float, a bool and None represent themselves, and a list begins with its kind:

    ["array", i]  ["tensor", i]  ["scalar", i]                                 of array i
    ["tensor", i, "bfloat16", [axis, ...], true]       its type, axes by stride, requires_grad
    ["bytes", i]  ["text", i]                                                  in array i
    ["int", "0x..."]  ["complex", real, imaginary]
    ["list", part, ...]  ["tuple", part, ...]  ["dict", key, value, ...]
    ["class", "module:Name", ["field", ...], part, ...]  ["enum", "module:Name", "MEMBER"]
    ["object", "module:Name", content, attributes]  ["codec", "name", content]
    ["pickle", i, ...]                                                        array i, its buffers

A name in a tree selects among the classes that this process knows: those given to the loader, those
that are registered, and those of the user's own modules that are loaded. It imports nothing but the
library of a shipped codec.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.batches.attributed_classes import (
    LIBRARY_CLASSES,
    base_of,
    content_of,
    is_attributed,
    is_container,
    make_attributed,
)
from launcher.data.batches.class_names import find_class, reference_to
from launcher.data.batches.codecs.codec_registry import Codec, no_codec, registry
from launcher.data.batches.known_classes import (
    enum_content,
    enum_member,
    field_names,
    field_values,
    is_plain_class,
    make_instance,
)
from launcher.data.batches.pickled import imported_class, pickled, unpickled
from launcher.errors import DataError, WireError

Array = npt.NDArray[Any]
#: What JSON can hold.
Tree: TypeAlias = Any
#: Whatever a dataset returns.
Batch: TypeAlias = Any

#: numpy's kinds of plain data: bool, integers, floats, complex, fixed strings, dates.
PLAIN_KINDS = frozenset("biufcSUmM")
#: Levels of nesting. The JSON parser has a limit of its own, which the other side must not hit.
MAX_DEPTH = 64
#: Longer texts are sent as bytes.
_LONG_TEXT = 4096
#: Classes whose content is converted to tensors or arrays, as what a dict holds.
_CONTAINERS = frozenset((dict, list, tuple))
_SURROGATE = re.compile("[\ud800-\udfff]")
#: The mend for what has no codec, and its price.
_PICKLE_IT = "DataLoader(..., allow_pickle=True), which trusts the data hosts with this process"
_PLAIN = frozenset((float, bool, type(None)))


@dataclass(frozen=True)
class PlainBatch:
    """A batch that is the script's own. It takes the place of a tree, and is never sent."""

    content: Any


class _Arrays(list[Array]):
    """The arrays of a batch so far."""

    #: Whether objects that have no other way are pickled, and what they hold made tensors before.
    allow_pickle = converts = False


def disassemble(
    batch: object, *, allow_pickle: bool = False, converts: bool = False
) -> tuple[Tree, list[Array]]:
    """Disassemble a batch into its tree and its contiguous arrays; `Assembly` inverts it.

    allow_pickle: pickle what cannot be sent otherwise. converts: what is pickled holds tensors, as
    torch's default_convert makes them, where torch is imported. Raises DataError for anything that
    cannot be sent.
    """
    arrays = _Arrays()
    arrays.allow_pickle, arrays.converts = allow_pickle, converts
    try:
        return _disassemble(batch, arrays, MAX_DEPTH), arrays
    except DataError as error:
        arrays.clear()  # of a list that holds itself, for one
        try:
            arrays.converts = False
            tree = _pickled(batch, arrays)
        except DataError as unwritten:
            raise (unwritten if allow_pickle else error) from unwritten
        if not allow_pickle:
            raise DataError(f"{error}; or {_PICKLE_IT}") from error
        return tree, arrays


def _disassemble(value: object, arrays: _Arrays, levels: int) -> Tree:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if (disassemble_kind := _KINDS.get(kind)) is not None:
        return disassemble_kind(value, arrays, levels)
    if not arrays.allow_pickle:
        return _disassemble_object(kind, value, arrays, levels)
    known = len(arrays)
    try:
        return _disassemble_object(kind, value, arrays, levels)
    except DataError:
        del arrays[known:]
        return _pickled(value, arrays)


def _pickled(value: object, arrays: _Arrays) -> Tree:
    if arrays.converts and (torch := sys.modules.get("torch")):
        with contextlib.suppress(Exception):  # the class may raise anything, and stays as it is
            value = torch.utils.data.default_convert(value)
    return ["pickle", *(_add(each, arrays) for each in pickled(value))]


def _below(levels: int) -> int:
    if levels == 0:
        raise DataError(f"a batch is nested more than {MAX_DEPTH} deep, or holds itself")
    return levels - 1


# Plain data ------------------------------------------------------------------------------------


def _int(value: int, arrays: _Arrays, levels: int) -> Tree:
    return value if value.bit_length() < 64 else ["int", hex(value)]


def _complex(value: complex, arrays: _Arrays, levels: int) -> Tree:
    return ["complex", value.real, value.imag]


def _bytes(value: bytes, arrays: _Arrays, levels: int) -> Tree:
    return ["bytes", _add_bytes(value, arrays)]


def _text(value: str, arrays: _Arrays, levels: int) -> Tree:
    # JSON joins two surrogates into one character, which would be a different str.
    if len(value) > _LONG_TEXT or (not value.isascii() and _SURROGATE.search(value)):
        return ["text", _add_bytes(value.encode("utf-8", "surrogatepass"), arrays)]
    return str(value)


def _array(value: Array, arrays: _Arrays, levels: int) -> Tree:
    if value.dtype.kind == "O" and arrays.allow_pickle:
        return _pickled(value, arrays)
    if value.dtype.kind == "V":
        codec = registry.named("numpy.structured")
        assert codec is not None  # shipped
        return _encoded(codec, value, arrays, _below(levels))
    return _strided("array", value, arrays)


def _strided(kind: str, array: Array, arrays: _Arrays, name: str = "") -> Tree:
    if array.flags.c_contiguous or not (axes := _axes(array)):
        return [kind, _add(array, arrays), *([name] if name else [])]
    return [kind, _add(array.transpose(axes), arrays), name, axes]


def _axes(array: Array) -> list[int]:
    """Return the axes of a dense array by their strides; [] if it need not be transposed."""
    if array.flags.c_contiguous:
        return []
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return axes if array.transpose(axes).flags.c_contiguous else []


def _list(value: list[object], arrays: _Arrays, levels: int) -> Tree:
    return ["list", *_parts(value, arrays, _below(levels))]


def _tuple(value: tuple[object, ...], arrays: _Arrays, levels: int) -> Tree:
    return ["tuple", *_parts(value, arrays, _below(levels))]


def _parts(values: Sequence[Tree], arrays: _Arrays, levels: int) -> Sequence[Tree]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds == _ONLY_INTS and -_LIMIT < min(values) <= max(values) < _LIMIT):
        return values  # long lists of numbers would take a call for each
    return [_disassemble(part, arrays, levels) for part in values]


def _dict(value: dict[object, object], arrays: _Arrays, levels: int) -> Tree:
    levels = _below(levels)
    tree: list[Any] = ["dict"]
    for key, part in value.items():
        tree += (_key(key, arrays, levels), _disassemble(part, arrays, levels))
    return tree


def _key(key: object, arrays: _Arrays, levels: int) -> Tree:
    if type(key) not in _KINDS and tensors.is_tensor(key) and not arrays.allow_pickle:
        raise DataError("a batch holds a dict with a tensor as a key: use its number, item()")
    return _disassemble(key, arrays, levels)


#: The classes of plain data. Others, derived ones included, need a codec or fields of their own.
_KINDS: dict[type, Callable[[Any, _Arrays, int], Any]] = {
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


def _disassemble_object(kind: type, value: Any, arrays: _Arrays, levels: int) -> Tree:
    if tensors.is_plain_tensor(value):
        array, name = tensors.as_array(value)
        tree = _strided("tensor", array, arrays, name)
        return [*tree, *("", [])[len(tree) - 2 :], True] if value.requires_grad else tree
    levels = _below(levels)
    name = tensors.codec_name(value)
    if (codec := registry.named(name) if name else registry.of(kind)) is not None:
        return _encoded(codec, value, arrays, levels)
    if isinstance(value, np.generic):
        return ["scalar", _add(np.asarray(value), arrays)]
    if isinstance(value, enum.Enum):
        return ["enum", reference_to(kind), enum_content(value)]
    if is_plain_class(kind):
        parts = [_disassemble(part, arrays, levels) for part in field_values(value)]
        return ["class", reference_to(kind), field_names(kind), *parts]
    if is_attributed(kind) and not tensors.codec_name(value):
        content, attributes = (_disassemble(part, arrays, levels) for part in content_of(value))
        return ["object", reference_to(kind), content, attributes]
    raise no_codec(kind)


def _encoded(codec: Codec, value: object, arrays: _Arrays, levels: int) -> Tree:
    try:
        content = codec.encode(value)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"the codec of {codec.name} could not encode a {type(value).__name__}: {error!r}"
        ) from error
    return ["codec", codec.name, _disassemble(content, arrays, levels)]


def _add_bytes(data: bytes, arrays: _Arrays) -> int:
    return _add(np.frombuffer(data, np.uint8), arrays)


def _add(array: Array, arrays: _Arrays) -> int:
    if array.dtype.kind not in PLAIN_KINDS:
        raise DataError(
            f"a batch holds an array of type {array.dtype}, which cannot be sent: make it one of "
            "numbers, bools, dates or fixed strings (astype), or a dict of them"
        )
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    arrays.append(array)
    return len(arrays) - 1


# Reassembly -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Settings for rebuilding batches.

    tensors: True converts arrays to tensors, False converts tensors to arrays, and None keeps each
        as it was; what a codec creates is not converted. types: classes that batches may hold, in
        addition to those that the process knows. allow_pickle: read pickles, which import and call
        what they name.
    """

    tensors: bool | None = None
    types: tuple[type, ...] = ()
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        for kind in self.types:
            if not isinstance(kind, type) or not is_plain_class(kind):
                raise DataError(
                    f"types has {kind!r}, which is no NamedTuple, dataclass or enum; for another "
                    "class call launcher.data.register_codec"
                )
        if len(self._types_by_name) < len(set(self.types)):
            raise DataError(f"types has two classes of one name; rename one: {self.types}")

    def rebuild(self, tree: Tree, arrays: Sequence[Array]) -> Batch:
        """Rebuild a batch from its tree.

        Raises WireError for a tree that does not fit its arrays, and DataError for parts that this
        process cannot create.
        """
        if type(tree) is PlainBatch:
            return tree.content
        try:
            return self._rebuild(tree, arrays)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise WireError(f"a batch whose tree does not fit its arrays: {error!r}") from error

    def _rebuild(self, tree: Tree, arrays: Sequence[Array]) -> Batch:
        if type(tree) is not list:
            if type(tree) is dict:
                raise WireError("a batch whose tree holds an object")
            return tree
        kind = tree[0]
        if kind == "tensor" or kind == "array" or kind == "scalar":
            return self._array(arrays, *tree)
        if kind == "list":
            return self._parts(tree[1:], arrays)
        if kind == "tuple":
            return tuple(self._parts(tree[1:], arrays))
        if kind == "dict":
            keys = self._exact._parts(tree[1::2], arrays)
            return dict(zip(keys, self._parts(tree[2::2], arrays), strict=True))
        if kind == "class":
            _, name, fields, *values = tree
            return self._instance(name, fields, self._parts(values, arrays))
        if kind == "codec":
            _, name, content = tree
            codec = _codec(name)
            inner = self if codec.is_container else self._exact
            return _decoded(codec, inner._rebuild(content, arrays))
        if kind == "object":
            _, name, content, attributes = tree
            found = self._class(name, is_attributed)
            base = base_of(found)
            of_content = self if base in _CONTAINERS else self._exact
            of_attributes = self if base is object and is_container(found) else self._exact
            content = of_content._rebuild(content, arrays)
            return make_attributed(found, content, of_attributes._rebuild(attributes, arrays))
        if kind == "enum":
            _, name, member = tree
            return enum_member(self._class(name), member)
        if kind == "pickle":
            return self._unpickled([_at(arrays, index) for index in tree[1:]])
        return _scalar_part(arrays, *tree)

    def _parts(self, trees: list[Tree], arrays: Sequence[Array]) -> list[Batch]:
        """Rebuild the parts of a list, which becomes the user's."""
        if _COMPOUND.isdisjoint(map(type, trees)):
            return trees  # long lists of numbers would take a call for each
        return [self._rebuild(part, arrays) for part in trees]

    @functools.cached_property
    def _exact(self) -> Assembly:
        """Settings for dict keys and the content of codecs, which keep their types."""
        return self if self.tensors is None else replace(self, tensors=None)

    def _array(
        self,
        arrays: Sequence[Array],
        kind: str,
        index: int,
        name: str = "",
        axes: Sequence[int] = (),
        requires_grad: bool = False,
    ) -> Batch:
        array = _at(arrays, index)
        if axes:
            array = array.transpose([axes.index(axis) for axis in range(array.ndim)])
        if self.tensors or (self.tensors is None and kind == "tensor"):
            tensor = tensors.as_tensor(array, name)
            return tensors.with_grad(tensor) if requires_grad else tensor
        if name:
            raise DataError(
                f"a batch holds a tensor of type {name}, which numpy does not have: let the loader "
                "give tensors (import torch before it is made, or tensors=True), or convert it in "
                "the dataset"
            )
        return array[()] if kind == "scalar" else array

    def _instance(self, name: str, fields: list[str], values: Sequence[object]) -> object:
        kind = self._class(name)
        known = field_names(kind)
        if known != fields or len(fields) != len(values):
            raise DataError(
                f"a batch holds a {name} with the fields {fields}, and this process has one with "
                f"{known}: both sides must use one class"
            )
        return make_instance(kind, fields, values)

    def _unpickled(self, arrays: list[Array]) -> object:
        if not self.allow_pickle:
            raise DataError(f"a batch holds a pickle, which this loader refuses: {_PICKLE_IT}")
        return unpickled(arrays)

    def _class(self, name: str, fits: Callable[[type], bool] = is_plain_class) -> type:
        """Return the class that a name selects; raises DataError for any other."""
        module, _, path = name.partition(":")
        kind = self._types_by_name.get(path)
        if kind is None or reference_to(kind) != name:  # another class of that name comes first
            kind = registry.class_named(name) or find_class(name) or kind
        may_import = self.allow_pickle or name in LIBRARY_CLASSES
        if kind is None and may_import and isinstance(found := imported_class(name), type):
            kind = found
        if kind is None or not fits(kind):
            raise DataError(
                f"a batch holds a {path} of {module}, which this process does not know: import it "
                f"in the script, from {module} import {path}; a class that is not of the job's own "
                "code must be given to the loader, too: "
                f"DataLoader(..., options=LoaderOptions(types=[{path}])); or {_PICKLE_IT}"
            )
        return kind

    @functools.cached_property
    def _types_by_name(self) -> dict[str, type]:
        return {kind.__qualname__: kind for kind in self.types}


def _codec(name: str) -> Codec:
    """Return the codec that a name selects; raises DataError for any other."""
    if (codec := registry.named(name)) is not None:
        return codec
    library = name.partition(".")[0].partition(":")[0]
    raise DataError(
        f"a batch holds a {name}, for which this process has no codec: import in the script "
        f"what registers it (import {library}, or the module that calls register_codec)"
    )


def _decoded(codec: Codec, content: object) -> object:
    try:
        return codec.decode(content)
    except Exception as error:
        raise DataError(
            f"the codec of {codec.name} could not decode what arrived: {error!r}"
        ) from error


#: What JSON makes of parts that are more than themselves.
_COMPOUND = frozenset((list, dict))


def _scalar_part(arrays: Sequence[Array], kind: str, what: Tree, *more: Tree) -> object:
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
