"""The bulk protocol: one frame is one batch, on any of the connections between two hosts.

    frame    = prefix header payload
    prefix   = "LDF2"  header bytes (u32)  payload bytes (u64)  checksum (u32), little-endian
    header   = JSON [run, step, worker, content bytes], and for a part: attempt, offset, total bytes
    payload  = the arrays' bytes, each at a multiple of ALIGNMENT, then the content
    content  = JSON [tree, [[dtype, shape, offset], ...]]

Nothing is copied on the way out (one sendmsg over the arrays' own memory), and the payload can be
received in one piece into any buffer, where the arrays are then views. The receiver reads the
header, which is small; only the rank reads the content. A large batch may travel in parts, each a
frame of its own, on several connections. The checksum is crc32 over all that comes before and
after it, where the job asks for it, and 0 where not.
"""

from __future__ import annotations

import functools
import json
import math
import re
import socket
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches.structure import PLAIN_KINDS
from launcher.errors import DataError, WireError
from launcher.runtime.lines import from_json

Array = npt.NDArray[Any]

MAGIC = b"LDF2"
ALIGNMENT = 64
HEADER_LIMIT = 4096
PAYLOAD_LIMIT = 1 << 40

_SIZES = struct.Struct("<4sIQ")
_CHECKSUM = struct.Struct("<I")
#: What numpy calls its plain types: "<f4", "|b1", "<U12", "<M8[25s]".
_DTYPE = re.compile(
    rf"[<>|][{''.join(sorted(PLAIN_KINDS))}][0-9]{{1,9}}(\[[0-9]*[a-zA-Z]{{1,2}}\])?"
)
#: Receiving in pieces of this size was measured faster than whole batches of 38-64 MB, and to take
#: a tenth less CPU time than pieces of 1 MiB.
_PIECE = 4 << 20
#: Bytes that the kernel gathers before it wakes who receives a frame; the last ones of them, in
#: smaller steps, so that none waits for bytes that are not to come. A wake-up for each segment was
#: measured to cost a quarter to a third of the CPU time.
_LOW_WATER = (1 << 20, 128 << 10, 1)
#: sendmsg takes at most IOV_MAX buffers.
_IOV_MAX = 1000
_PADDING = bytes(ALIGNMENT)
#: json.dumps makes one for each call, which costs as much again. Trees are no circles.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)
_MOST_AXES = 64  # numpy's own limit

PREFIX_BYTES = _SIZES.size + _CHECKSUM.size


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """What a frame says of itself first."""

    header_bytes: int
    payload_bytes: int
    checksum: int


@dataclass(frozen=True, kw_only=True)
class Part:
    """The place of a frame's payload in that of its batch. attempt: counts a worker's batches."""

    attempt: int
    offset: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Header:
    """Whose batch a frame holds. content_bytes: of its end, which say what the arrays are."""

    run: str
    step: int
    worker: str
    content_bytes: int
    part: Part | None = None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One batch, ready to be sent."""

    run: str
    step: int
    header: bytes
    buffers: tuple[memoryview, ...]
    payload_bytes: int
    checksums: bool = False

    @classmethod
    def pack(
        cls,
        run: str,
        step: int,
        worker: str,
        tree: Any,
        arrays: Sequence[Array],
        *,
        checksums: bool = False,
    ) -> Frame:
        """Lay out contiguous arrays; they must not change until the frame is sent."""
        buffers: list[memoryview] = []
        entries = []
        offset = 0
        for array in arrays:
            if padding := -offset % ALIGNMENT:
                buffers.append(memoryview(_PADDING)[:padding])
                offset += padding
            entries.append([array.dtype.str, array.shape, offset])
            if array.nbytes:
                # reinterpreted as bytes: dates and strings do not export their own buffers
                buffers.append(array.reshape(-1).view(np.uint8).data)
            offset += array.nbytes
        content = _to_json([tree, entries])
        buffers.append(memoryview(content))
        header = _to_json([run, step, worker, len(content)])
        payload_bytes = offset + len(content)
        if len(header) > HEADER_LIMIT or payload_bytes > PAYLOAD_LIMIT:
            raise DataError(
                f"a batch has {payload_bytes >> 20} MiB, and at most {PAYLOAD_LIMIT >> 20} MiB can "
                "be sent: make batches smaller"
            )
        return cls(
            run=run,
            step=step,
            header=header,
            buffers=tuple(buffers),
            payload_bytes=payload_bytes,
            checksums=checksums,
        )

    @property
    def prefix(self) -> bytes:
        sizes = _SIZES.pack(MAGIC, len(self.header), self.payload_bytes)
        checksum = _checksum([sizes, self.header, *self.buffers]) if self.checksums else 0
        return sizes + _CHECKSUM.pack(checksum)

    def split(self, count: int, attempt: int) -> list[Frame]:
        """The batch in `count` parts of equal size, which may be sent at the same time."""
        named = from_json(self.header)
        share = -(-self.payload_bytes // count)
        return [
            replace(
                self,
                header=_to_json([*named, attempt, offset, self.payload_bytes]),
                buffers=tuple(_cut(self.buffers, offset, offset + share)),
                payload_bytes=min(share, self.payload_bytes - offset),
            )
            for offset in range(0, self.payload_bytes, share)
        ]

    def copy_to(self, target: npt.NDArray[np.uint8]) -> None:
        """Write the payload to memory of its size, or more."""
        offset = 0
        for buffer in self.buffers:
            # numpy copies large buffers without holding the interpreter lock
            target[offset : offset + len(buffer)] = np.frombuffer(buffer, np.uint8)
            offset += len(buffer)

    def send(self, connection: socket.socket) -> None:
        """Send the frame; raises OSError when the other side is gone."""
        pending = [memoryview(self.prefix), memoryview(self.header), *self.buffers]
        first = 0
        while first < len(pending):
            sent = connection.sendmsg(pending[first : first + _IOV_MAX])
            while first < len(pending) and sent >= len(pending[first]):
                sent -= len(pending[first])
                first += 1
            if sent:
                pending[first] = pending[first][sent:]


def read_prefix(data: bytes | bytearray | memoryview) -> Prefix:
    """A frame's prefix; raises WireError for what no worker sends."""
    magic, header_bytes, payload_bytes = _SIZES.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _SIZES.size)
    if magic != MAGIC:
        raise WireError(f"not a frame: it starts with {bytes(magic)!r}")
    if header_bytes > HEADER_LIMIT or payload_bytes > PAYLOAD_LIMIT:
        raise WireError(f"a frame of {header_bytes} + {payload_bytes} bytes is beyond the limits")
    return Prefix(header_bytes=header_bytes, payload_bytes=payload_bytes, checksum=checksum)


def read_header(data: bytes | bytearray) -> Header:
    """A frame's header, checked for its parts; raises WireError."""
    try:
        run, step, worker, content_bytes, *place = from_json(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"a frame with a damaged header: {error!r}") from error
    numbers = [step, content_bytes, *place]
    are_numbers = all(type(number) is int and number >= 0 for number in numbers)
    if type(run) is not str or type(worker) is not str or not are_numbers:
        raise WireError(f"a frame with a damaged header: {bytes(data[:80])!r}")
    if len(place) not in (0, 3) or (place and not place[1] < place[2] <= PAYLOAD_LIMIT):
        raise WireError(f"a frame with a damaged header: no place for a part in {place}")
    part = Part(attempt=place[0], offset=place[1], total=place[2]) if place else None
    return Header(run=run, step=step, worker=worker, content_bytes=content_bytes, part=part)


def receive_exactly(connection: socket.socket, target: memoryview) -> bool:
    """Fill a buffer; False when the other side ended before it was full."""
    received = 0
    for low_water in _LOW_WATER:
        end = len(target) - low_water + 1
        if end <= received:
            continue
        if len(target) > _LOW_WATER[-2]:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
        while received < end:
            piece = target[received : min(end, received + _PIECE)]
            count = connection.recv_into(piece, 0, socket.MSG_WAITALL)
            if count == 0:
                return False
            received += count
    return True


def skip(connection: socket.socket, count: int) -> bool:
    """Receive and forget; False when the other side ended before."""
    scratch = memoryview(bytearray(min(count, _PIECE)))
    while count > 0:
        piece = scratch[: min(count, len(scratch))]
        if not receive_exactly(connection, piece):
            return False
        count -= len(piece)
    return True


def is_intact(
    prefix: Prefix, header: bytes | bytearray, payload: memoryview | npt.NDArray[np.uint8]
) -> bool:
    """Whether all parts of a received frame are what was sent, by the checksum."""
    sizes = _SIZES.pack(MAGIC, prefix.header_bytes, prefix.payload_bytes)
    return _checksum([sizes, header, payload]) == prefix.checksum


def unpack(payload: npt.NDArray[np.uint8], content_bytes: int) -> tuple[Any, list[Array]]:
    """The tree of a batch, and its arrays as views of its payload; raises WireError."""
    if not 0 < content_bytes <= len(payload):
        raise WireError(f"a frame whose content of {content_bytes} bytes is outside of it")
    try:
        tree, entries = from_json(payload[-content_bytes:].tobytes())
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"a frame with a damaged content: {error!r}") from error
    if not isinstance(entries, list):
        raise WireError("a frame with a damaged content: no list of arrays")
    return tree, view_arrays(entries, payload[:-content_bytes])


def view_arrays(entries: Sequence[Any], payload: npt.NDArray[np.uint8]) -> list[Array]:
    """The arrays of a frame as views of its payload; raises WireError when they do not fit."""
    return [_view(entry, payload) for entry in entries]


def _view(entry: Any, payload: npt.NDArray[np.uint8]) -> Array:
    try:
        name, shape, offset = entry
        dtype = _dtype(name)
        # numpy reads a negative length or offset as a wish of its own
        size = math.prod(shape) * dtype.itemsize if len(shape) <= _MOST_AXES else -1
        if min(offset, size, *shape) < 0 or size > len(payload) - offset:
            raise WireError(f"an array of {name}{shape} at {offset} is outside its frame")
        array: Array = np.ndarray(shape, dtype, payload, offset)
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"a damaged array entry {str(entry)[:80]}: {error}") from error
    return array


@functools.lru_cache(maxsize=256)
def _dtype(name: str) -> np.dtype[Any]:
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise TypeError(f"{name!r} is no type of array")
    return np.dtype(name)


def _cut(buffers: Iterable[memoryview], start: int, end: int) -> Iterator[memoryview]:
    """What lies between two offsets of the buffers' bytes."""
    offset = 0
    for buffer in buffers:
        if cut := buffer[max(0, start - offset) : max(0, end - offset)]:
            yield cut
        offset += len(buffer)


def _to_json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _checksum(parts: Iterable[Any]) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum
