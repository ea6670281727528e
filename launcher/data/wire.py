"""The bulk protocol: one frame is one batch, on any of the connections between two hosts.

    frame    = prefix header payload
    prefix   = "LDF1"  header bytes (u32)  payload bytes (u64), little-endian
    header   = JSON {"run", "step", "worker", "tree", "arrays": [[dtype, shape, offset], ...]}
    payload  = the arrays' bytes, each at a multiple of ALIGNMENT

Nothing is copied on the way out (one sendmsg over the arrays' own memory), and the payload can be
received in one piece into any buffer, where the arrays are then views.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.errors import DataError, WireError

MAGIC = b"LDF1"
ALIGNMENT = 64
HEADER_LIMIT = 64 * 1024 * 1024
PAYLOAD_LIMIT = 1 << 40

_PREFIX = struct.Struct("<4sIQ")
#: numpy's kinds of plain data: bool, integers, floats, complex, fixed strings, dates.
_PLAIN_KINDS = frozenset("biufcSUmM")
#: Receiving in pieces of this size was measured 10-15 % faster than whole batches of 38-64 MB.
_PIECE = 1 << 20
#: sendmsg takes at most IOV_MAX buffers.
_IOV_MAX = 1000
_PADDING = bytes(ALIGNMENT)

PREFIX_BYTES = _PREFIX.size


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One batch, ready to be sent."""

    run: str
    step: int
    header: bytes
    buffers: tuple[memoryview, ...]
    payload_bytes: int

    @classmethod
    def pack(
        cls, run: str, step: int, worker: str, tree: Any, arrays: Sequence[npt.NDArray[Any]]
    ) -> Frame:
        """Lay out contiguous arrays; they must not change until the frame is sent."""
        buffers: list[memoryview] = []
        entries = []
        offset = 0
        for array in arrays:
            if padding := -offset % ALIGNMENT:
                buffers.append(memoryview(_PADDING)[:padding])
                offset += padding
            entries.append([array.dtype.str, list(array.shape), offset])
            if array.nbytes:
                # reinterpreted as bytes: dates and strings do not export their own buffers
                buffers.append(array.reshape(-1).view(np.uint8).data)
            offset += array.nbytes
        header = json.dumps(
            {"run": run, "step": step, "worker": worker, "tree": tree, "arrays": entries},
            separators=(",", ":"),
        ).encode()
        if len(header) > HEADER_LIMIT or offset > PAYLOAD_LIMIT:
            raise DataError(
                f"a batch has {len(header) >> 20} MiB of text and structure, and at most "
                f"{HEADER_LIMIT >> 20} MiB can be sent: make batches smaller, or return the texts "
                "as bytes or arrays"
            )
        return cls(run=run, step=step, header=header, buffers=tuple(buffers), payload_bytes=offset)

    def send(self, connection: socket.socket) -> None:
        """Send the frame; raises OSError when the other side is gone."""
        prefix = _PREFIX.pack(MAGIC, len(self.header), self.payload_bytes)
        pending = [memoryview(prefix), memoryview(self.header), *self.buffers]
        first = 0
        while first < len(pending):
            sent = connection.sendmsg(pending[first : first + _IOV_MAX])
            while first < len(pending) and sent >= len(pending[first]):
                sent -= len(pending[first])
                first += 1
            if sent:
                pending[first] = pending[first][sent:]


def read_prefix(prefix: bytes | bytearray | memoryview) -> tuple[int, int]:
    """(header bytes, payload bytes); raises WireError for what no worker sends."""
    magic, header_bytes, payload_bytes = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise WireError(f"not a frame: it starts with {bytes(magic)!r}")
    if header_bytes > HEADER_LIMIT or payload_bytes > PAYLOAD_LIMIT:
        raise WireError(f"a frame of {header_bytes} + {payload_bytes} bytes is beyond the limits")
    return header_bytes, payload_bytes


def read_header(data: bytes | bytearray) -> dict[str, Any]:
    """A frame's header, checked for its parts; raises WireError."""
    try:
        header = json.loads(data)
        run, step, worker = header["run"], header["step"], header["worker"]
        arrays = header["arrays"]
    except (ValueError, TypeError, KeyError) as error:
        raise WireError(f"a frame with a damaged header: {error!r}") from error
    wellformed = isinstance(run, str) and isinstance(step, int) and isinstance(worker, str)
    if not (wellformed and isinstance(arrays, list) and "tree" in header):
        raise WireError("a frame with a damaged header")
    return dict(header)


def receive_exactly(connection: socket.socket, target: memoryview) -> bool:
    """Fill a buffer; False when the other side ended before it was full."""
    received = 0
    while received < len(target):
        count = connection.recv_into(target[received : received + _PIECE], 0, socket.MSG_WAITALL)
        if count == 0:
            return False
        received += count
    return True


def view_arrays(entries: Sequence[Any], payload: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
    """The arrays of a frame as views of its payload; raises WireError when they do not fit."""
    return [_view(entry, payload) for entry in entries]


def _view(entry: Any, payload: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    try:
        name, shape, offset = entry
        dtype = np.dtype(name) if isinstance(name, str) else None
        if dtype is None or dtype.kind not in _PLAIN_KINDS or dtype.hasobject:
            raise WireError(f"an array of type {name!r} in a frame")
        count = int(np.prod(shape, dtype=np.int64))
        end = offset + count * dtype.itemsize
        if min([offset, count, *shape]) < 0 or end > len(payload):
            raise WireError(f"an array of {name}{shape} at {offset} is outside its frame")
        array: npt.NDArray[Any] = payload[offset:end].view(dtype).reshape(shape)
    except (ValueError, TypeError) as error:
        raise WireError(f"a damaged array entry {entry!r}: {error}") from error
    return array
