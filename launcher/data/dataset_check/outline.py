"""Outline of a batch: the name, type and shape of each of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.data.batches import Array, Tree

#: Parts of a list or tuple that are outlined one by one; longer ones by their first.
_MAX_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class OutlinePart:
    """One part of a batch.

    name: where it is, like "image" or "boxes[0]"; "" for a batch of one part.
    kind: its type, with its shape. array: its number among the batch's arrays, None for others.
    """

    name: str
    kind: str
    array: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.kind}".strip()


def outline(tree: Tree, arrays: Sequence[Array], name: str = "") -> Iterator[OutlinePart]:
    """Yield the parts of a batch that was disassembled."""
    match tree:
        case ["array" | "tensor" | "scalar", int(number), *stored_as]:
            kind = stored_as[0] if stored_as else arrays[number].dtype
            shape = f" {arrays[number].shape}" if tree[0] != "scalar" else ""
            yield OutlinePart(name=name, kind=f"{kind}{shape}", array=number)
        case ["bytes" | "text", int(number)]:
            kind = f"{'bytes' if tree[0] == 'bytes' else 'str'} of length {arrays[number].size}"
            yield OutlinePart(name=name, kind=kind, array=number)
        case ["list" | "tuple", *parts]:
            yield from _sequence(tree[0], parts, arrays, name)
        case ["dict", *pairs]:
            for key, part in zip(pairs[::2], pairs[1::2], strict=True):
                yield from outline(part, arrays, _joined(name, _key(key)))
        case ["class", str(), list(fields), *parts]:
            for field, part in zip(fields, parts, strict=True):
                yield from outline(part, arrays, _joined(name, str(field)))
        case ["enum", str(reference), *_]:
            yield OutlinePart(name=name, kind=reference.partition(":")[2])
        case ["codec", str(codec), content]:
            for part in outline(content, arrays, name):
                yield OutlinePart(
                    name=part.name, kind=f"{codec} with {part.kind}", array=part.array
                )
        case ["int" | "complex", *_]:
            yield OutlinePart(name=name, kind=tree[0])
        case _:
            yield OutlinePart(name=name, kind="None" if tree is None else type(tree).__name__)


def _sequence(
    kind: str, parts: list[Any], arrays: Sequence[Array], name: str
) -> Iterator[OutlinePart]:
    if not parts:
        yield OutlinePart(name=name, kind=f"empty {kind}")
    elif len(parts) <= _MAX_PARTS and any(isinstance(part, list) for part in parts):
        for index, part in enumerate(parts):
            yield from outline(part, arrays, f"{name}[{index}]")
    else:
        for part in outline(parts[0], arrays, name):
            yield OutlinePart(name=part.name, kind=f"{kind} of {len(parts)}, each {part.kind}")


def _key(tree: Tree) -> str:
    return "key" if isinstance(tree, list) else str(tree)


def _joined(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part
