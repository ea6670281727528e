"""Codec for Pillow's images; one that was opened from a file is sent as a plain, loaded image."""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image

from launcher.data.batches.codecs.codec_registry import Codec, Content

#: What `Image.info` may hold to be sent with the image: texts, numbers and tuples of these, as the
#: transparent colour of an RGB image is one.
_INFO = (str, bytes, int, float, bool, type(None))


def shipped() -> Iterator[Codec]:
    """Yield the codec."""
    yield Codec(kind=Image.Image, name="PIL.Image", encode=_content, decode=_image, package="PIL")


def _content(image: Image.Image) -> object:
    raw = image.tobytes()  # loads it, with its palette
    palette = None
    if image.mode in ("P", "PA") and image.palette is not None:
        palette = [image.palette.mode, image.getpalette(None)]
    info = {key: value for key, value in image.info.items() if _is_sent(value)}
    return [image.mode, list(image.size), raw, palette, info]


def _is_sent(value: object) -> bool:
    parts = value if type(value) is tuple else (value,)
    return all(type(part) in _INFO for part in parts)


def _image(content: Content) -> Image.Image:
    mode, size, raw, palette, info = content
    if len(raw) * 8 < size[0] * size[1]:
        raise ValueError(f"an image of {size} has {len(raw)} bytes")
    image = Image.frombytes(mode, tuple(size), raw)
    if palette is not None:
        kind, colours = palette
        image.putpalette(bytes(colours), kind)
    image.info = info
    return image
