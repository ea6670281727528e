"""Registry of codecs: the classes that batches may hold beside plain data.

What arrives selects among the registered names and those of shipped codecs, which are a table here;
the first of a library imports it. No other module is imported because of what arrives.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from launcher.data.batches.class_names import reference_to
from launcher.data.batches.known_classes import is_plain_class
from launcher.errors import DataError

_T = TypeVar("_T")
#: What an encoder returns, and objects of classes that the type checker does not see.
Content: TypeAlias = Any
_HERE = __name__.rpartition(".")[0]
_STANDARD = "standard_types"
#: The names of shipped codecs for the classes of libraries, by the module that has them.
_SHIPPED = {
    "numpy_types": tuple(
        f"numpy.{each}" for each in ("structured", "recarray", "void", "record", "MaskedArray")
    ),
    "torch_types": tuple(
        f"torch.{each}" for each in ("sparse", "nested", "Size", "dtype", "nn.Parameter")
    ),
    "torchvision_types": tuple(
        f"torchvision.{each}" for each in ("Image", "Video", "Mask", "BoundingBoxes", "KeyPoints")
    ),
    "tensordict_types": tuple(
        f"tensordict.{each}"
        for each in ("TensorDict", "NonTensorData", "LazyStackedTensorDict", "NonTensorStack")
    ),
    "transformers_types": (
        *("transformers.BatchEncoding", "transformers.BatchFeature", "tokenizers.Encoding"),
    ),
    "pillow_types": ("PIL.Image",),
}
_NAMES = frozenset(name for names in _SHIPPED.values() for name in names)
#: The modules of shipped codecs, by the package of the classes.
_MODULES = {
    **dict.fromkeys(("builtins", "collections", "datetime", "decimal", "fractions"), _STANDARD),
    **dict.fromkeys(("pathlib", "types", "uuid", "zoneinfo"), _STANDARD),
    **{name.partition(".")[0]: module for module, names in _SHIPPED.items() for name in names},
}


@dataclass(frozen=True, kw_only=True)
class Codec:
    """The way of one class through the data service.

    name: on the wire. encode: returns the content of an object, which may be anything that a batch
    holds. decode: creates an equal object from it. package: subclasses from this package are sent
    as the class itself; "" for none. is_container: what it holds is converted to tensors or arrays,
    as what a dict holds.
    """

    kind: type
    name: str
    encode: Callable[[Any], object]
    decode: Callable[[Any], object]
    package: str = ""
    is_container: bool = False


class CodecRegistry:
    """Codecs by class and by name, and the plain classes that were registered."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Codec] = {}
        self._by_name: dict[str, Codec] = {}
        self._classes: dict[str, type] = {}
        self._loaded: set[str] = set()

    def add(self, codec: Codec) -> None:
        """Add a codec; replaces an earlier one of the same name, whose class was made anew."""
        if (earlier := self._by_name.get(codec.name)) is not None:
            self._by_kind.pop(earlier.kind, None)
        self._by_kind[codec.kind] = self._by_name[codec.name] = codec

    def add_class(self, kind: type) -> None:
        """Add a NamedTuple, dataclass or enum, which needs no functions."""
        self._classes[reference_to(kind)] = kind

    def of(self, kind: type) -> Codec | None:
        """Return the codec for objects of a class, None if there is none."""
        if (codec := self._by_kind.get(kind)) is None:
            self._load(kind.__module__)
            codec = self._by_kind.get(kind) or self._of_family(kind)
        return codec

    def named(self, name: str) -> Codec | None:
        """Return the codec of that name, None if there is none.

        Imports the library of a shipped codec; raises DataError if it cannot be imported.
        """
        if name not in self._by_name and _is_shipped(name):
            self._load(name)
        return self._by_name.get(name)

    def class_named(self, name: str) -> type | None:
        """Return the plain class that was registered under a name."""
        return self._classes.get(name)

    def _of_family(self, kind: type) -> Codec | None:
        package = _package(kind.__module__)
        for parent in kind.__mro__[1:]:
            codec = self._by_kind.get(parent)
            if codec is not None and codec.package == package:
                return codec
        return None

    def _load(self, name: str) -> None:
        """Load the shipped codecs for the library of a class or codec."""
        package = _package(name)
        module = _MODULES.get(package)
        if module is None or package in self._loaded:
            return
        try:
            codecs = importlib.import_module(f"{_HERE}.{module}").shipped()
        except Exception as error:  # a broken library raises anything
            raise DataError(
                f"a batch holds a {name}, and {sys.executable} on this host cannot import "
                f"{package} ({error!r}): install it there, as by the group's requirements.txt"
            ) from error
        self._loaded.add(package)
        for codec in codecs:
            self._by_kind.setdefault(codec.kind, codec)  # the user's own come first
            self._by_name.setdefault(codec.name, codec)


def _is_shipped(name: str) -> bool:
    return name in _NAMES or _MODULES.get(_package(name)) == _STANDARD


def _package(name: str) -> str:
    return name.partition(".")[0]


def no_codec(kind: type) -> DataError:
    """Return the error for an object of a class without a codec: the line to write."""
    name = kind.__name__
    encode, decode = "vars", f"lambda fields: {name}(**fields)"
    if issubclass(kind, (Mapping, list)):
        encode, decode = "list" if issubclass(kind, list) else "dict", name
    return DataError(
        f"a batch holds a {kind.__qualname__} of {kind.__module__}, which has no codec: convert "
        "it to arrays, tensors, numbers, str, bytes, or a list, tuple, dict, NamedTuple or "
        "dataclass of these; or write, in a module that the dataset's module and the script both "
        f"import, launcher.data.register_codec({name}, encode={encode}, decode={decode}), with "
        "functions that fit the class"
    )


#: The registry of this process.
registry = CodecRegistry()


def register_codec(
    kind: type[_T],
    *,
    encode: Callable[[_T], object] | None = None,
    decode: Callable[[Content], _T] | None = None,
    name: str | None = None,
) -> None:
    """Let batches hold objects of a class.

    Call it in a module that the dataset's module and the training script both import. `encode`
    returns an object's content: arrays, tensors, numbers, texts, lists, dicts and objects of other
    registered classes. `decode` creates an equal object from the content. A NamedTuple, dataclass
    or enum needs neither; its fields are sent.

    name: on the wire; by default that of the class and its module.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> register_codec(
    ...     Interval, encode=lambda i: (i.low, i.high), decode=lambda content: Interval(*content)
    ... )

    Raises DataError for a class that cannot be registered, or with only one of the functions.
    """
    if not isinstance(kind, type):
        raise DataError(f"register_codec is given {kind!r}, which is no class")
    if kind in _PLAIN_DATA:
        raise DataError(f"register_codec is given {kind.__name__}, which is sent without a codec")
    if encode is None and decode is None and is_plain_class(kind):
        registry.add_class(kind)
        return
    if encode is None or decode is None:
        raise DataError(
            f"register_codec({kind.__name__}) needs both functions: encode=, which returns an "
            "object's content, and decode=, which creates an object from it"
        )
    registry.add(Codec(kind=kind, name=name or reference_to(kind), encode=encode, decode=decode))


_PLAIN_DATA = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict)
