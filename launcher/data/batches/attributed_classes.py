"""Objects that are their attributes and, for subclasses of dict, list and others, a content.

They are created without a call of their class, as copy and pickle create them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from launcher.data.batches.class_names import find_class, reference_to

#: Classes of libraries that are known as the job's own are: the first object that arrives imports
#: the module.
LIBRARY_CLASSES = frozenset(
    {
        "monai.data.meta_tensor:MetaTensor",
        "monai.utils.enums:MetaKeys",  # in what a MetaTensor holds
        "monai.utils.enums:SpaceKeys",
        "monai.utils.enums:TraceKeys",
        "sklearn.utils._bunch:Bunch",
    }
)
#: Py_TPFLAGS_HEAPTYPE of CPython: the class was made by a class statement.
_WRITTEN_IN_PYTHON = 1 << 9
#: Methods by which a class has a way of its own to be copied and pickled.
_OWN_WAYS = frozenset(
    f"__{name}__"
    for name in ("reduce", "reduce_ex", "getstate", "setstate", "getnewargs", "getnewargs_ex")
)
#: The content of an object, by the class that has it.
_CONTENTS: dict[type, Callable[[Any], object]] = {
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    np.ndarray: lambda value: value.view(np.ndarray),
    object: lambda value: None,
}


def is_attributed(kind: type) -> bool:
    """Return whether objects of a class are sent as their attributes and their content."""
    name = reference_to(kind)
    if name not in LIBRARY_CLASSES and find_class(name) is not kind:
        return False
    return base_of(kind) is not None


def is_container(kind: type) -> bool:
    """Return whether torch converts what objects of a class hold to tensors."""
    return issubclass(kind, (Mapping, Sequence))


@functools.lru_cache(maxsize=1024)
def base_of(kind: Any) -> type | None:
    """Return the class that has the content of a class's objects; None for one with slots, say."""
    bases = {*_CONTENTS, tensor_class()}
    base: Any = next(parent for parent in kind.__mro__ if parent in bases)
    is_listed = reference_to(kind) in LIBRARY_CLASSES
    for parent in kind.__mro__:
        if parent in base.__mro__:
            continue
        own = vars(parent)
        if not parent.__flags__ & _WRITTEN_IN_PYTHON or own.get("__slots__"):
            return None
        if not is_listed and not _OWN_WAYS.isdisjoint(own):
            return None
    torchs = tensor_class()
    if base is torchs and kind.__torch_dispatch__ is not torchs.__torch_dispatch__:
        return None  # its values are elsewhere
    return None if kind is base else base


def content_of(value: Any) -> tuple[object, dict[str, object]]:
    """Return the content of an object, and its attributes."""
    kind: Any = type(value)
    base = base_of(kind)
    attributes = dict(getattr(value, "__dict__", {}))
    if base is not None and base is tensor_class():
        with _as_plain():
            plain = value.detach().as_subclass(base)
        return plain.requires_grad_(value.requires_grad), attributes
    return _CONTENTS[base or object](value), attributes


def make_attributed(kind: Any, content: Any, attributes: Mapping[str, object]) -> object:
    """Invert `content_of`; raises ValueError for another content."""
    base: Any = base_of(kind)
    if base is None or not _is_content(content, base):
        raise ValueError(f"no content of a {kind.__qualname__}: {type(content).__name__}")
    if base is tensor_class():
        with _as_plain():
            made: Any = content.detach().as_subclass(kind).requires_grad_(content.requires_grad)
    elif base is np.ndarray:
        made = content.view(kind)
    elif base in (dict, list, object):
        made = base.__new__(kind)
    else:
        made = base.__new__(kind, content)
    if base is dict:
        dict.update(made, content)
    elif base is list:
        list.extend(made, content)
    if attributes:
        made.__dict__.update(attributes)
    return made


def _is_content(content: object, base: type) -> bool:
    return content is None if base is object else type(content) is base


def tensor_class() -> Any:
    """Return torch's class of tensors, None where torch is not imported."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.Tensor


def _as_plain() -> Any:
    return sys.modules["torch"]._C.DisableTorchFunctionSubclass()
