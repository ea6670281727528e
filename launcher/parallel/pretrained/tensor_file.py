"""Files in the safetensors format, read tensor by tensor with no more bytes than these have.

A file is the length of its header (8 bytes, little-endian), the header (JSON: by name the dtype,
the shape and the offsets of the bytes), and the bytes. The format is described in the repository
huggingface/safetensors, README.md, "Format".
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from launcher.errors import ParallelError

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
#: The longest header that the format allows, in bytes.
_LONGEST = 100_000_000
#: Of the data of files, so that each tensor can be mapped into memory.
_ALIGNMENT = 8


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor in a file. begin: the place of its first byte in the file."""

    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def read(self) -> torch.Tensor:
        """Return the tensor, on the CPU. Raises ParallelError."""
        tensor = torch.empty(self.shape, dtype=self.dtype)
        self.read_into(tensor)
        return tensor

    def read_into(self, tensor: torch.Tensor) -> None:
        """Read into a contiguous CPU tensor of this dtype and shape. Raises ParallelError."""
        if not self.nbytes:
            return
        flat = tensor.view(-1).view(torch.uint8).numpy()
        try:
            with self.file.open("rb", buffering=0) as stream:
                stream.seek(self.begin)
                view, count = memoryview(flat), 0
                while count < self.nbytes:
                    more = stream.readinto(view[count : count + 2**30])
                    if not more:
                        raise ParallelError(f"{self.file} ends within a tensor: copy it again")
                    count += more
        except OSError as error:
            raise ParallelError(f"{self.file} cannot be read: {error.strerror}") from error


def stored_tensors(file: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by name; only its header is read. Raises ParallelError."""
    _check_byte_order()
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST):
                raise ParallelError(f"{file} is not a complete safetensors file: copy it again")
            header = json.loads(stream.read(length))
        begin = 8 + length
        found = {
            name: _stored(file, each, begin, size)
            for name, each in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise ParallelError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ParallelError(f"{file} is not a safetensors file: {error!r}") from error
    return found


def _stored(file: Path, entry: Mapping[str, Any], begin: int, size: int) -> StoredTensor:
    if entry["dtype"] not in _DTYPES:
        raise ParallelError(f"{file} has tensors of dtype {entry['dtype']}, which is not supported")
    first, last = entry["data_offsets"]
    found = StoredTensor(
        file=file,
        dtype=_DTYPES[entry["dtype"]],
        shape=tuple(entry["shape"]),
        begin=begin + first,
    )
    if first < 0 or last - first != found.nbytes or begin + last > size:
        raise ParallelError(f"{file} is not a complete safetensors file: copy it again")
    return found


def write_tensors(tensors: Mapping[str, torch.Tensor], file: Path) -> None:
    """Write a file. Raises OSError, and ParallelError for a dtype that the format lacks."""
    _check_byte_order()
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise ParallelError(f"{name} is {tensor.dtype}, which safetensors files cannot hold")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    with file.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        for tensor in tensors.values():
            if tensor.numel():
                flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
                stream.write(memoryview(flat.numpy()))


def _check_byte_order() -> None:
    if sys.byteorder != "little":
        raise ParallelError("safetensors files are read and written on little-endian machines only")
