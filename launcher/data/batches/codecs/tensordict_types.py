"""Codecs for tensordict's TensorDict and the data without tensors that it may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict

from launcher.data.batches.codecs.codec_registry import Codec, Content


def shipped() -> Iterator[Codec]:
    """Yield the codecs."""
    yield Codec(kind=TensorDict, name="tensordict.TensorDict", encode=_content, decode=_tensor_dict)
    yield Codec(
        kind=NonTensorData,
        name="tensordict.NonTensorData",
        encode=lambda held: [held.data, list(held.batch_size)],
        decode=lambda content: NonTensorData(content[0], batch_size=content[1]),
    )
    for kind in (LazyStackedTensorDict, NonTensorStack):
        yield Codec(
            kind=kind,
            name=f"tensordict.{kind.__name__}",
            encode=lambda held: [list(held.tensordicts), held.stack_dim],
            decode=_stack(kind),
        )


def _stack(kind: Content) -> Callable[[Content], object]:
    return lambda content: kind(*content[0], stack_dim=content[1])


def _content(batch: Content) -> object:
    parts = {key: batch._get_str(key, None) for key in batch.keys()}  # noqa: SIM118 - iterating a TensorDict yields its rows
    names = list(batch.names) if any(name is not None for name in batch.names) else None
    return [parts, list(batch.batch_size), names]


def _tensor_dict(content: Content) -> Content:
    parts, batch_size, names = content
    return TensorDict(parts, batch_size=batch_size, names=names)
