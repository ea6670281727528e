"""Codecs for torch's values that are not plain, dense memory: sparse and nested tensors, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from launcher.data.batches.codecs.codec_registry import Codec, Content

_COMPRESSED = {
    "torch.sparse_csr": torch.sparse_csr,
    "torch.sparse_csc": torch.sparse_csc,
    "torch.sparse_bsr": torch.sparse_bsr,
    "torch.sparse_bsc": torch.sparse_bsc,
}
_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)


def shipped() -> Iterator[Codec]:
    """Yield the codecs."""
    yield Codec(
        kind=SparseTensor,
        name="torch.sparse",
        encode=lambda tensor: (
            _coordinates(tensor) if tensor.layout is torch.sparse_coo else _compressed(tensor)
        ),
        decode=_sparse,
    )
    yield Codec(kind=NestedTensor, name="torch.nested", encode=_parts, decode=_nested)
    yield Codec(kind=torch.Size, name="torch.Size", encode=list, decode=torch.Size)
    yield Codec(
        kind=torch.dtype,
        name="torch.dtype",
        encode=lambda kind: str(kind).removeprefix("torch."),
        decode=_dtype,
    )
    yield Codec(
        kind=torch.nn.Parameter,
        name="torch.nn.Parameter",
        encode=lambda parameter: [parameter.data, parameter.requires_grad],
        decode=lambda content: torch.nn.Parameter(*content),
    )


class SparseTensor:
    """Stands for tensors of a sparse layout, whose class is torch.Tensor."""


class NestedTensor:
    """Stands for nested tensors of both layouts."""


def _coordinates(tensor: Content) -> object:
    return [
        "torch.sparse_coo",
        list(tensor.shape),
        tensor._indices(),
        tensor._values(),
        tensor.is_coalesced(),
    ]


def _compressed(tensor: Content) -> object:
    rows = tensor.layout in _BY_ROW
    return [
        str(tensor.layout),
        list(tensor.shape),
        tensor.crow_indices() if rows else tensor.ccol_indices(),
        tensor.col_indices() if rows else tensor.row_indices(),
        tensor.values(),
    ]


def _sparse(content: Content) -> Content:
    layout, shape, first, second, third = content
    if layout == "torch.sparse_coo":
        return torch.sparse_coo_tensor(
            first, second, shape, is_coalesced=third, check_invariants=True
        )
    return torch.sparse_compressed_tensor(
        first, second, third, shape, layout=_COMPRESSED[layout], check_invariants=True
    )


def _parts(tensor: Content) -> object:
    if tensor.layout is not torch.jagged:
        return [list(tensor.unbind())]
    return [tensor.values(), tensor.offsets(), tensor.lengths(), tensor._ragged_idx]


def _nested(content: Content) -> Content:
    if len(content) == 1:
        return torch.nested.nested_tensor(content[0])
    values, offsets, lengths, ragged = content
    _check_within(values, offsets, lengths, ragged)
    return torch.nested.nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=ragged)


def _check_within(values: Content, offsets: Content, lengths: Content, ragged: int) -> None:
    """Raise ValueError for offsets outside the values, which torch does not check itself."""
    ends = offsets[1:] if lengths is None else offsets[:-1] + lengths
    size = values.shape[ragged - 1]
    in_order = bool((ends >= offsets[:-1]).all())
    if not in_order or int(offsets.min()) < 0 or int(ends.max()) > size:
        raise ValueError("the offsets of a nested tensor lie outside its values")


def _dtype(name: str) -> Content:
    kind = getattr(torch, name) if name.isidentifier() else None
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"{name!r} is no dtype of torch")
    return kind
