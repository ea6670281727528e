"""The bulk protocol: one frame is one batch, on any of the connections between two hosts.

    frame    = start payload
    start    = "LDF3"  checksum (u32)  bytes of the payload, bytes of the content, step (u64 each),
               attempt, offset and total bytes of a part (u64 each; total 0: no part), lengths of
               two names (u16 each), the run, the worker; little-endian, zeros to START_BYTES
    payload  = the arrays' bytes, each at a multiple of ALIGNMENT, then the content
    content  = JSON [tree, [[dtype, shape, offset], ...]]

Sending copies nothing (one sendmsg over the arrays' own memory). The payload can be received in one
piece into any buffer, and the arrays are then views of it. The receiver reads the start, in one
piece as well; only the rank reads the content. A large batch may be sent in parts, each a frame of
its own, on several connections. The checksum is crc32 over everything after it if the job asks for
it, and 0 otherwise.
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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from launcher.data.batches.structure import PLAIN_KINDS
from launcher.errors import DataError, WireError
from launcher.runtime import from_json

Array = npt.NDArray[Any]
#: The dtype of an array in a payload, its shape, its offset, and its size in bytes.
Entry = tuple[np.dtype[Any], tuple[int, ...], int, int]

MAGIC = b"LDF3"
ALIGNMENT = 64
START_BYTES = 512  # has room for the longest possible host name
PAYLOAD_LIMIT = 1 << 40

_START = struct.Struct("<4sI6QHH")
_CHECKSUM = struct.Struct("<I")
#: Offset of the checksum in the start, and of the bytes that it covers.
_AT_CHECKSUM, _CHECKED = 4, 8
#: numpy's names of its plain types: "<f4", "|b1", "<U12", "<M8[25s]".
_DTYPE = re.compile(
    rf"[<>|][{''.join(sorted(PLAIN_KINDS))}][0-9]{{1,9}}(\[[0-9]*[a-zA-Z]{{1,2}}\])?"
)
#: Measured: receiving in pieces of this size is faster than whole batches of 38-64 MB, and takes a
#: tenth less CPU time than pieces of 1 MiB.
_PIECE = 4 << 20
#: Bytes that the kernel gathers before it wakes the receiving thread (SO_RCVLOWAT). Shrinks towards
#: the end of a frame, so that no thread waits for bytes that will not arrive. Measured: a wake-up
#: for each segment costs a quarter to a third of the CPU time.
_LOW_WATER = (2 << 20, 256 << 10, 1)
#: sendmsg takes at most IOV_MAX buffers.
_IOV_MAX = 1000
_PADDING = bytes(ALIGNMENT)
#: json.dumps creates an encoder for each call, which doubles the cost. Trees have no cycles.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)
_MAX_AXES = 64  # numpy's own limit
#: A content of more bytes is not cached.
_MAX_CACHED_CONTENT = 4096


@dataclass(frozen=True, kw_only=True)
class WirePart:
    """The location of a frame's payload within its batch's payload.

    attempt: counts a worker's batches.
    """

    attempt: int
    offset: int
    total: int


@dataclass(kw_only=True, slots=True)
class Header:
    """Identifies the batch of a frame.

    content_bytes: size of the content, at the end of the payload, which describes the arrays.
    """

    run: str
    step: int
    worker: str
    payload_bytes: int
    content_bytes: int
    part: WirePart | None = None
    #: Of the whole batch.
    total_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.total_bytes = self.part.total if self.part else self.payload_bytes


@dataclass(frozen=True, kw_only=True)
class WireFrame:
    """One batch, or a part of it, ready to be sent."""

    header: Header
    buffers: tuple[memoryview, ...]
    checksums: bool = False

    @classmethod
    def pack(
        cls,
        run: str,
        step: int,
        worker: str,
        tree: object,
        arrays: Sequence[Array],
        *,
        checksums: bool = False,
    ) -> WireFrame:
        """Lay out contiguous arrays, which must not change until the frame is sent.

        Raises DataError for a batch that exceeds PAYLOAD_LIMIT.
        """
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
        if offset + len(content) > PAYLOAD_LIMIT:
            raise DataError(
                f"a batch has {offset >> 20} MiB, and at most {PAYLOAD_LIMIT >> 20} MiB can "
                "be sent: make batches smaller"
            )
        header = Header(
            run=run,
            step=step,
            worker=worker,
            payload_bytes=offset + len(content),
            content_bytes=len(content),
        )
        return cls(header=header, buffers=tuple(buffers), checksums=checksums)

    @property
    def start(self) -> bytes:
        """The bytes before the payload; raises DataError for names that are too long."""
        start = _write_start(self.header)
        if not self.checksums:
            return start
        checksum = _CHECKSUM.pack(_checksum([start[_CHECKED:], *self.buffers]))
        return start[:_AT_CHECKSUM] + checksum + start[_CHECKED:]

    def split(self, count: int, attempt: int) -> list[WireFrame]:
        """Split the batch into `count` parts of equal size, which may be sent concurrently."""
        total = self.header.payload_bytes
        share = -(-total // count)
        return [
            replace(
                self,
                header=replace(
                    self.header,
                    payload_bytes=min(share, total - offset),
                    part=WirePart(attempt=attempt, offset=offset, total=total),
                ),
                buffers=tuple(_cut(self.buffers, offset, offset + share)),
            )
            for offset in range(0, total, share)
        ]

    def copy_to(self, target: npt.NDArray[np.uint8]) -> None:
        """Write the payload to memory of at least its size."""
        offset = 0
        for buffer in self.buffers:
            # numpy releases the interpreter lock while it copies large buffers
            target[offset : offset + len(buffer)] = np.frombuffer(buffer, np.uint8)
            offset += len(buffer)

    def send(self, connection: socket.socket) -> None:
        """Send the frame; raises OSError when the other side is gone."""
        pending = [memoryview(self.start), *self.buffers]
        first = 0
        while first < len(pending):
            sent = connection.sendmsg(pending[first : first + _IOV_MAX])
            while first < len(pending) and sent >= len(pending[first]):
                sent -= len(pending[first])
                first += 1
            if sent:
                pending[first] = pending[first][sent:]


def complete_in_place(
    memory: Array, arrays_in_it: dict[int, int], used: int, tree: object, arrays: Sequence[Array]
) -> tuple[int, int] | None:
    """Lay out a payload in memory that holds some of its arrays already.

    arrays_in_it: the sizes of what may be an array there, by offset, within the first `used` bytes.

    Returns the bytes of the payload and of its content, or None if the memory has no room for them.
    """
    start, entries = memory.ctypes.data, []
    for array in arrays:
        at = array.ctypes.data - start
        if not array.nbytes or arrays_in_it.pop(at, None) != array.nbytes:
            at = used + -used % ALIGNMENT
            used = at + array.nbytes
            if used > len(memory):
                return None
            if array.nbytes:
                memory[at:used] = array.reshape(-1).view(np.uint8)
        entries.append([array.dtype.str, array.shape, at])
    content = np.frombuffer(_to_json([tree, entries]), np.uint8)
    if used + len(content) > len(memory):
        return None
    memory[used : used + len(content)] = content
    return used + len(content), len(content)


def _write_start(header: Header) -> bytes:
    run, worker = header.run.encode(), header.worker.encode()
    if _START.size + len(run) + len(worker) > START_BYTES:
        raise DataError(f"the names of a batch are too long to be sent: {header.worker[:80]}...")
    part = header.part
    fixed = _START.pack(
        MAGIC,
        0,
        header.payload_bytes,
        header.content_bytes,
        header.step,
        *((part.attempt, part.offset, part.total) if part else (0, 0, 0)),
        len(run),
        len(worker),
    )
    return (fixed + run + worker).ljust(START_BYTES, b"\0")


def read_start(start: bytes | bytearray | memoryview) -> Header:
    """Parse a start into a header; raises WireError for anything that no worker sends."""
    magic, _, size, content, step, attempt, offset, total, *lengths = _START.unpack_from(start)
    if magic != MAGIC:
        raise WireError(f"not a frame: it starts with {bytes(magic)!r}")
    if max(size, total) > PAYLOAD_LIMIT:
        raise WireError(f"a frame of {size} bytes, a part of {total}, is beyond the limits")
    if total and offset >= total:
        raise WireError(f"a frame with a damaged start: a part at {offset} of {total} bytes")
    middle = _START.size + lengths[0]
    if (end := middle + lengths[1]) > START_BYTES:
        raise WireError(f"a frame with a damaged start: names of {lengths} bytes")
    try:
        run, worker = _name(bytes(start[_START.size : middle])), _name(bytes(start[middle:end]))
    except UnicodeDecodeError as error:
        raise WireError(f"a frame with a damaged start: {error!r}") from error
    part = WirePart(attempt=attempt, offset=offset, total=total) if total else None
    return Header(
        run=run, step=step, worker=worker, payload_bytes=size, content_bytes=content, part=part
    )


#: Cached: every batch carries one of a few names.
_name = functools.lru_cache(maxsize=1024)(bytes.decode)


def receive_exactly(connection: socket.socket, target: memoryview) -> bool:
    """Fill a buffer; returns False if the other side closed before it was full."""
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
    """Receive and discard `count` bytes; returns False if the other side closed before."""
    scratch = memoryview(bytearray(min(count, _PIECE)))
    while count > 0:
        piece = scratch[: min(count, len(scratch))]
        if not receive_exactly(connection, piece):
            return False
        count -= len(piece)
    return True


def is_intact(
    start: bytes | bytearray | memoryview, payload: memoryview | npt.NDArray[np.uint8]
) -> bool:
    """Return whether a received frame matches its checksum."""
    (checksum,) = _CHECKSUM.unpack_from(start, _AT_CHECKSUM)
    return bool(_checksum([start[_CHECKED:], payload]) == checksum)


@functools.lru_cache(maxsize=64)
def _read_content(content: bytes) -> tuple[Any, tuple[Entry, ...], int]:
    """Parse a content into the tree, the array entries, and the end offset of the last array.

    Cached, as most batches of a stream have the same content.
    """
    try:
        tree, entries = from_json(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"a frame with a damaged content: {error!r}") from error
    if not isinstance(entries, list):
        raise WireError("a frame with a damaged content: no list of arrays")
    read = tuple(map(read_entry, entries))
    return tree, read, max((offset + size for _, _, offset, size in read), default=0)


def unpack(payload: npt.NDArray[np.uint8], content_bytes: int) -> tuple[Any, list[Array]]:
    """Return the tree of a batch, and its arrays as views of its payload; raises WireError."""
    if not 0 < content_bytes <= len(payload):
        raise WireError(f"a frame whose content of {content_bytes} bytes is outside of it")
    text = payload[-content_bytes:].tobytes()
    # Long contents rarely repeat, so caching them is a waste of memory.
    read = _read_content if content_bytes <= _MAX_CACHED_CONTENT else _read_content.__wrapped__
    tree, entries, end = read(text)
    if end > len(payload) - content_bytes:
        raise WireError(
            f"an array that ends at {end} is outside its frame, of {len(payload)} bytes"
        )
    try:
        return tree, [np.ndarray(shape, dtype, payload, at) for dtype, shape, at, _ in entries]
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"arrays that numpy cannot make: {error}") from error


def read_entry(entry: Any) -> Entry:
    """Parse a content's entry for one array; raises WireError for an invalid one."""
    try:
        name, shape, offset = entry
        dtype = _dtype(name)
        # numpy gives negative lengths and offsets a meaning of their own
        if not all(type(number) is int and number >= 0 for number in (offset, *shape)):
            raise ValueError("its shape or its offset is not a count")
        if len(shape) > _MAX_AXES:
            raise ValueError("it has too many axes")
        size = math.prod(shape) * dtype.itemsize
        if max(offset, size) > PAYLOAD_LIMIT:
            raise ValueError("it is larger than a batch can be")
        return dtype, tuple(shape), offset, size
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"a damaged array entry {str(entry)[:80]}: {error}") from error


@functools.lru_cache(maxsize=256)
def _dtype(name: str) -> np.dtype[Any]:
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise TypeError(f"{name!r} is not an array type")
    return np.dtype(name)


def _cut(buffers: Iterable[memoryview], start: int, end: int) -> Iterator[memoryview]:
    """Yield the buffers' bytes between two offsets."""
    offset = 0
    for buffer in buffers:
        if cut := buffer[max(0, start - offset) : max(0, end - offset)]:
            yield cut
        offset += len(buffer)


def _to_json(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def _checksum(parts: Iterable[Any]) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum
