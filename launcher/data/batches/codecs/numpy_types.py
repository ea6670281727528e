"""Codecs for numpy's classes beyond plain arrays: structured and masked arrays, their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches.codecs.codec_registry import Codec, Content
from launcher.data.batches.structure import PLAIN_KINDS
from launcher.errors import DataError

Array = npt.NDArray[Any]


def shipped() -> Iterator[Codec]:
    """Yield the codecs."""
    yield Codec(
        kind=StructuredArray,
        name="numpy.structured",
        encode=structured_content,
        decode=structured_array,
    )
    yield Codec(
        kind=np.recarray,
        name="numpy.recarray",
        encode=structured_content,
        decode=lambda content: structured_array(content).view(np.recarray),
    )
    yield Codec(
        kind=np.void,
        name="numpy.void",
        encode=lambda record: structured_content(np.asarray(record)),
        decode=lambda content: structured_array(content)[()],
    )
    yield Codec(
        kind=np.record,
        name="numpy.record",
        encode=lambda record: structured_content(np.asarray(record)),
        decode=lambda content: structured_array(content).view(np.recarray)[()],
    )
    yield Codec(
        kind=np.ma.MaskedArray,
        name="numpy.MaskedArray",
        encode=lambda array: [array.data, np.ma.getmaskarray(array), array.fill_value],
        decode=lambda content: np.ma.MaskedArray(content[0], content[1], fill_value=content[2]),
    )


class StructuredArray:
    """Stands for arrays of a structured type, whose class is that of all arrays."""


def structured_content(array: Array) -> object:
    """Return [type, shape, bytes] of an array of records."""
    flat = np.zeros(array.size, array.dtype)  # bytes between fields are the same everywhere
    flat[:] = array.reshape(-1)
    return [type_content(array.dtype), list(array.shape), flat.view(np.uint8)]


def structured_array(content: Content) -> Array:
    """Invert `structured_content`; raises ValueError for anything else."""
    fields, shape, raw = content
    dtype = type_from(fields)
    made: Array = np.ndarray(tuple(shape), dtype, bytearray(raw.tobytes() or bytes(1)))
    return made


def type_content(dtype: np.dtype[Any]) -> object:
    """Return a structured type as its fields: [names, types, offsets, titles, size, is aligned].

    A plain type is its name, and one of several elements is [type, shape]. Raises DataError for
    objects, and for bytes without fields.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [type_content(base), list(shape)]
    if dtype.fields is None:
        if dtype.kind not in PLAIN_KINDS:
            raise DataError(
                f"a batch holds an array of records with a field of type {dtype}, which cannot be "
                "sent: make it numbers, bools, dates or fixed strings"
            )
        return dtype.str
    names = list(dtype.names or ())
    fields = [dtype.fields[name] for name in names]
    return [
        names,
        [type_content(field[0]) for field in fields],
        [field[1] for field in fields],
        [field[2] if len(field) > 2 else None for field in fields],
        dtype.itemsize,
        dtype.isalignedstruct,
    ]


def type_from(content: Content) -> np.dtype[Any]:
    """Invert `type_content`; raises ValueError for anything else."""
    if isinstance(content, str):
        dtype = np.dtype(content)
        if dtype.kind not in PLAIN_KINDS or dtype.str != content:
            raise ValueError(f"{content!r} is no plain type")
        return dtype
    if len(content) == 2:
        return np.dtype((type_from(content[0]), tuple(content[1])))
    names, types, offsets, titles, size, aligned = content
    fields: Any = {
        "names": names,
        "formats": [type_from(each) for each in types],
        "offsets": offsets,
        "titles": titles,
        "itemsize": size,
    }
    made: np.dtype[Any] = np.dtype(fields, align=bool(aligned))
    return made
