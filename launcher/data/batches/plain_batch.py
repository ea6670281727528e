"""Batches of plain data alone, such as ragged lists of numbers, copied in the script's process.

Their disassembly and reassembly would take several times as long as a copy, which is equal.
"""

from __future__ import annotations

import itertools
from typing import Any

from launcher.data.batches.structure import MAX_DEPTH, PlainBatch

#: Classes whose objects arrive as they are sent, and cannot be modified.
_LEAVES = frozenset((int, float, bool, type(None), complex, str, bytes))
_ONLY_LISTS = frozenset({list})
#: What `_copy` returns for what is not plain.
_NONE = object()


def copy_plain(batch: object) -> PlainBatch | None:
    """Copy lists, tuples and dicts of numbers, str, bytes and None.

    The copy is equal to what a data host would send, in its types, too. None for anything else.
    """
    copied = _copy(batch, MAX_DEPTH)
    return None if copied is _NONE else PlainBatch(copied)


def _copy(value: Any, levels: int) -> Any:
    kind = type(value)
    if kind in _LEAVES:
        return value
    if (kind is not list and kind is not tuple and kind is not dict) or levels == 0:
        return _NONE
    if kind is dict:
        return _copy_dict(value, levels - 1)
    kinds = set(map(type, value))
    if kinds <= _LEAVES:
        return value[:]
    if kinds == _ONLY_LISTS and levels > 1:  # ragged lists: one pass over what they hold
        held = set(map(type, itertools.chain.from_iterable(value)))
        if held <= _LEAVES:
            return kind(map(list, value))
    return _copy_parts(value, levels - 1)


def _copy_parts(value: list[object] | tuple[object, ...], levels: int) -> Any:
    parts: list[object] = []
    for part in value:
        copied = part if type(part) in _LEAVES else _copy(part, levels)
        if copied is _NONE:
            return _NONE
        parts.append(copied)
    return parts if type(value) is list else tuple(parts)


def _copy_dict(value: dict[object, object], levels: int) -> Any:
    parts: dict[object, object] = {}
    for key, part in value.items():
        copied = part if type(part) in _LEAVES else _copy(part, levels)
        if copied is _NONE or type(key) not in _LEAVES:
            return _NONE
        parts[key] = copied
    return parts
