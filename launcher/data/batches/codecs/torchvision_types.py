"""Codecs for torchvision's tv_tensors: images, videos, masks, and boxes with their canvas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torchvision import tv_tensors

from launcher.data.batches.codecs.codec_registry import Codec, Content

#: Classes that are a tensor and nothing else.
_PLAIN = ("Image", "Video", "Mask")
#: Classes with a canvas, and the attributes that newer versions have beside it.
_ON_CANVAS = ("BoundingBoxes", "KeyPoints")


def shipped() -> Iterator[Codec]:
    """Yield the codecs of the classes that this version of torchvision has."""
    for name in _PLAIN:
        kind = getattr(tv_tensors, name)
        yield Codec(
            kind=kind,
            name=f"torchvision.{name}",
            encode=lambda tensor: tensor.as_subclass(torch.Tensor),
            decode=kind,
        )
    for name in _ON_CANVAS:
        if (kind := getattr(tv_tensors, name, None)) is not None:
            yield Codec(
                kind=kind, name=f"torchvision.{name}", encode=_on_canvas, decode=_decoder(kind)
            )


def _on_canvas(tensor: Content) -> object:
    format_name = tensor.format.name if hasattr(tensor, "format") else None
    clamping = getattr(tensor, "clamping_mode", None)
    return [tensor.as_subclass(torch.Tensor), list(tensor.canvas_size), format_name, clamping]


def _decoder(kind: Content) -> Callable[[Content], object]:
    def decode(content: Content) -> object:
        values, canvas, format_name, clamping = content
        given = {} if format_name is None else {"format": format_name}
        if clamping is not None:
            given["clamping_mode"] = clamping
        return kind(values, canvas_size=tuple(canvas), **given)

    return decode
