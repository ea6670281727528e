"""Reassembly of batches from their trees and arrays: the inverse of `structure`.

A name in a tree selects among the classes that this process knows: those given to the loader, those
that are registered, and those of the user's own modules that are loaded. It imports nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.batches.class_names import find_class, reference_to
from launcher.data.batches.codecs.codec_registry import Codec, registry
from launcher.data.batches.known_classes import (
    enum_member,
    field_names,
    is_plain_class,
    make_instance,
)
from launcher.data.batches.plain_batch import PlainBatch
from launcher.data.batches.structure import Tree
from launcher.errors import DataError, WireError

Array = npt.NDArray[Any]
#: Whatever a dataset returns.
Batch: TypeAlias = Any


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """Settings for rebuilding batches.

    tensors: True converts arrays to tensors, False converts tensors to arrays, and None keeps each
        as it was; what a codec creates is not converted. types: classes that batches may hold, in
        addition to those that the process knows.
    """

    tensors: bool | None = None
    types: tuple[type, ...] = ()

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
        if kind == "enum":
            _, name, member = tree
            return enum_member(self._class(name), member)
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

    def _array(self, arrays: Sequence[Array], kind: str, index: int, name: str = "") -> Batch:
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

    def _instance(self, name: str, fields: list[str], values: Sequence[object]) -> object:
        kind = self._class(name)
        known = field_names(kind)
        if known != fields or len(fields) != len(values):
            raise DataError(
                f"a batch holds a {name} with the fields {fields}, and this process has one with "
                f"{known}: both sides must use one class"
            )
        return make_instance(kind, fields, values)

    def _class(self, name: str) -> type:
        """Return the class that a name selects; raises DataError for any other."""
        module, _, path = name.partition(":")
        kind = self._types_by_name.get(path)
        if kind is None or reference_to(kind) != name:  # another class of that name comes first
            kind = registry.class_named(name) or find_class(name) or kind
        if kind is None or not is_plain_class(kind):
            raise DataError(
                f"a batch holds a {path} of {module}, which this process does not know: import it "
                f"in the script, from {module} import {path}; a class that is not of the job's own "
                "code must be given to the loader, too: "
                f"DataLoader(..., options=LoaderOptions(types=[{path}]))"
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
