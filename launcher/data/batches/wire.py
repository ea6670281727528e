"""The bulk protocol: one frame is one batch, on any of the connections between two hosts.

    frame    = start payload
    start    = "LDF3"  checksum (u32)  bytes of the payload, bytes of the content, step (u64 each),
               attempt, offset and total bytes of a part (u64 each; total 0: no part), lengths of
               two names (u16 each), the run, the worker; little-endian, zeros to START_BYTES
    payload  = the arrays' bytes, each at a multiple of ALIGNMENT, then the content
    content  = JSON [tree, [[dtype, shape, offset], ...]]

Nothing is copied on the way out (one sendmsg over the arrays' own memory), and the payload can be
received in one piece into any buffer, where the arrays are then views. The receiver reads the
start, in one piece as well; only the rank reads the content. A large batch may travel in parts,
each a frame of its own, on several connections. The checksum is crc32 over all that comes after it,
where the job asks for it, and 0 where not.
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
from launcher.runtime.lines import from_json

Array = npt.NDArray[Any]
#: What kind an array of a payload is, its shape, its offset, and its bytes.
Entry = tuple[np.dtype[Any], tuple[int, ...], int, int]

MAGIC = b"LDF3"
ALIGNMENT = 64
START_BYTES = 512  # with room for the longest name that a host can have
PAYLOAD_LIMIT = 1 << 40

_START = struct.Struct("<4sI6QHH")
_CHECKSUM = struct.Struct("<I")
#: Offset of the checksum in the start, and of what it covers.
_AT_CHECKSUM, _CHECKED = 4, 8
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
_LOW_WATER = (2 << 20, 256 << 10, 1)
#: sendmsg takes at most IOV_MAX buffers.
_IOV_MAX = 1000
_PADDING = bytes(ALIGNMENT)
#: json.dumps makes one for each call, which costs as much again. Trees are no circles.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)
_MOST_AXES = 64  # numpy's own limit
#: A content of more bytes is read anew each time.
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class Part:
    """The place of a frame's payload in that of its batch. attempt: counts a worker's batches."""

    attempt: int
    offset: int
    total: int


@dataclass(kw_only=True, slots=True)
class Header:
    """Whose batch a frame holds. content_bytes: of its end, which say what the arrays are."""

    run: str
    step: int
    worker: str
    payload_bytes: int
    content_bytes: int
    part: Part | None = None
    #: Of the whole batch.
    total_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.total_bytes = self.part.total if self.part else self.payload_bytes


@dataclass(frozen=True, kw_only=True)
class Frame:
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
        """What comes before the payload; raises DataError for names that are too long."""
        start = _write_start(self.header)
        if not self.checksums:
            return start
        checksum = _CHECKSUM.pack(_checksum([start[_CHECKED:], *self.buffers]))
        return start[:_AT_CHECKSUM] + checksum + start[_CHECKED:]

    def split(self, count: int, attempt: int) -> list[Frame]:
        """The batch in `count` parts of equal size, which may be sent at the same time."""
        total = self.header.payload_bytes
        share = -(-total // count)
        return [
            replace(
                self,
                header=replace(
                    self.header,
                    payload_bytes=min(share, total - offset),
                    part=Part(attempt=attempt, offset=offset, total=total),
                ),
                buffers=tuple(_cut(self.buffers, offset, offset + share)),
            )
            for offset in range(0, total, share)
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
        pending = [memoryview(self.start), *self.buffers]
        first = 0
        while first < len(pending):
            sent = connection.sendmsg(pending[first : first + _IOV_MAX])
            while first < len(pending) and sent >= len(pending[first]):
                sent -= len(pending[first])
                first += 1
            if sent:
                pending[first] = pending[first][sent:]


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
    """Whose batch the payload after it is; raises WireError for what no worker sends."""
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
    part = Part(attempt=attempt, offset=offset, total=total) if total else None
    return Header(
        run=run, step=step, worker=worker, payload_bytes=size, content_bytes=content, part=part
    )


#: The same few names come with every batch.
_name = functools.lru_cache(maxsize=1024)(bytes.decode)


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
    start: bytes | bytearray | memoryview, payload: memoryview | npt.NDArray[np.uint8]
) -> bool:
    """Whether a received frame is what was sent, by the checksum."""
    (checksum,) = _CHECKSUM.unpack_from(start, _AT_CHECKSUM)
    return bool(_checksum([start[_CHECKED:], payload]) == checksum)


@functools.lru_cache(maxsize=64)
def _read_content(content: bytes) -> tuple[Any, tuple[Entry, ...], int]:
    """The tree, where which arrays are, and where the last of them ends.

    Most batches of a stream are alike in that.
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
    """The tree of a batch, and its arrays as views of its payload; raises WireError."""
    if not 0 < content_bytes <= len(payload):
        raise WireError(f"a frame whose content of {content_bytes} bytes is outside of it")
    text = payload[-content_bytes:].tobytes()
    # What says much is seldom said twice, and would be remembered for nothing.
    read = _read_content if content_bytes <= _REMEMBERED else _read_content.__wrapped__
    tree, entries, end = read(text)
    if end > len(payload) - content_bytes:
        raise WireError(
            f"an array that ends at {end} is outside its frame, of {len(payload)} bytes"
        )
    try:
        return tree, [np.ndarray(shape, dtype, payload, at) for dtype, shape, at, _ in entries]
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"arrays that numpy does not make: {error}") from error


def read_entry(entry: Any) -> Entry:
    """What a content says of one array; raises WireError for what no array is."""
    try:
        name, shape, offset = entry
        dtype = _dtype(name)
        # numpy reads a negative length or offset as a wish of its own
        if not all(type(number) is int and number >= 0 for number in (offset, *shape)):
            raise ValueError("its shape and offset are no counts")
        if len(shape) > _MOST_AXES:
            raise ValueError("it has too many axes")
        return dtype, tuple(shape), offset, math.prod(shape) * dtype.itemsize
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"a damaged array entry {str(entry)[:80]}: {error}") from error


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
