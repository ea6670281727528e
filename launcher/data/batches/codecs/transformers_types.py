"""Codecs for the containers of transformers: BatchEncoding and BatchFeature."""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import Encoding
from transformers import BatchEncoding, BatchFeature

from launcher.data.batches.codecs.codec_registry import Codec, Content


def shipped() -> Iterator[Codec]:
    """Yield the codecs."""
    yield Codec(
        kind=BatchEncoding,
        name="transformers.BatchEncoding",
        encode=lambda batch: [dict(batch.data), batch.encodings, batch.n_sequences],
        decode=lambda content: BatchEncoding(
            content[0], encoding=content[1], n_sequences=content[2]
        ),
        is_container=True,
    )
    yield Codec(
        kind=BatchFeature,
        name="transformers.BatchFeature",
        encode=lambda batch: dict(batch.data),
        decode=BatchFeature,
        is_container=True,
    )
    yield Codec(
        kind=Encoding,
        name="tokenizers.Encoding",
        encode=lambda encoding: encoding.__getstate__(),  # JSON, which its own parser reads
        decode=_encoding,
    )


def _encoding(content: Content) -> Content:
    made = Encoding()
    made.__setstate__(content)
    return made
