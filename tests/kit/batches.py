"""Batches of every kind: those of hypothesis, how two are compared, their way over a socket."""

from __future__ import annotations

import dataclasses
import json
import math
import socket
import struct
import threading
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from launcher.data.batches import Assembly, structure, wire


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Box:
    corner: Any
    size: Any


TYPES = (Point, Box)

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.unicode_string_dtypes(max_len=3),
)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)
#: Any unicode, also halves of characters that JSON would join.
texts = st.text(st.characters(), max_size=8) | st.text(st.characters(categories=["Cs"]), max_size=4)
numbers = st.integers(-(1 << 100), 1 << 100) | st.floats() | st.booleans() | st.complex_numbers()
leaves = arrays | texts | st.binary(max_size=8) | st.none() | numbers
keys = st.recursive(
    texts | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none() | st.binary(),
    lambda key: st.tuples(key, key),
    max_leaves=3,
)
batches = st.recursive(
    leaves,
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(keys, part, max_size=3)
        | st.builds(Point, part, part)
        | st.builds(Box, part, part)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal in type, in bits and in order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, Box):
        return same(vars(one), vars(other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, complex):
        return same([one.real, one.imag], [other.real, other.imag])
    if isinstance(one, float):
        equal = math.isnan(one) if math.isnan(other) else one == other
        return equal and (math.isnan(one) or math.copysign(1, one) == math.copysign(1, other))
    if type(one).__module__ == "torch":
        return _same_tensors(one, other)
    return bool(one == other)


def _same_tensors(one: Any, other: Any) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return same(*(structure.disassemble(tensor)[1][0] for tensor in (one, other)))


def frame_of(batch: Any, *, checksums: bool = False, allow_pickle: bool = False) -> wire.WireFrame:
    tree, parts = structure.disassemble(batch, allow_pickle=allow_pickle)
    return wire.WireFrame.pack("run", 3, "algo-1/0/7", tree, parts, checksums=checksums)


def bytes_of(frame: wire.WireFrame) -> bytes:
    return b"".join(map(bytes, [frame.start, *frame.buffers]))


def start_of(
    run: bytes = b"run",
    worker: bytes = b"algo-1/0/7",
    *,
    lengths: tuple[int, int] | None = None,
    checksum: int = 0,
    **numbers: int,
) -> bytes:
    """The start of a frame by the protocol's own words, whatever it claims.

    lengths: those that it says its names have. numbers: those that are not 0, of payload, content,
    step, attempt, offset and total.
    """
    said = dict.fromkeys(("payload", "content", "step", "attempt", "offset", "total"), 0) | numbers
    lengths = lengths or (len(run), len(worker))
    fixed = struct.pack("<4sI6QHH", b"LDF3", checksum, *said.values(), *lengths)
    return (fixed + run + worker).ljust(512, b"\0")


def read_frame(connection: socket.socket) -> tuple[wire.Header, np.ndarray] | None:
    """A frame as the receiver reads it, checksum and all; None at the end."""
    start = bytearray(wire.START_BYTES)
    if not wire.receive_exactly(connection, memoryview(start)):
        return None
    header = wire.read_start(start)
    payload = np.empty(header.payload_bytes, np.uint8)
    if not wire.receive_exactly(connection, payload.data):
        return None
    assert not any(start[4:8]) or wire.is_intact(start, payload)
    return header, payload


def through_the_wire(frame: wire.WireFrame) -> tuple[wire.Header, np.ndarray]:
    """Send a frame over a real socket and read it as the receiver does."""
    here, there = socket.socketpair()
    for end in (here, there):
        end.settimeout(20)  # so that what is lost on the way fails, and does not hang
    with here, there:
        sender = threading.Thread(target=frame.send, args=(here,), daemon=True)
        sender.start()
        received = read_frame(there)
        sender.join()
    assert received is not None
    return received


def sent_and_rebuilt(
    batch: Any,
    *,
    tensors: bool | None = None,
    types: tuple[type, ...] = TYPES,
    allow_pickle: bool = False,
) -> Any:
    """What a rank gets when this is the batch of a worker."""
    header, payload = through_the_wire(frame_of(batch, allow_pickle=allow_pickle))
    tree, parts = wire.unpack(payload, header.content_bytes)
    assembly = Assembly(tensors=tensors, types=types, allow_pickle=allow_pickle)
    return assembly.rebuild(tree, parts)


def content_of(entry: Any) -> bytes:
    """The content of a frame that holds one array, as its entry says."""
    return json.dumps([["array", 0], [entry]]).encode()


def view_of(entry: Any, arrays: np.ndarray) -> np.ndarray:
    """The one array of a frame whose payload begins with these bytes; raises WireError."""
    content = content_of(entry)
    payload = np.concatenate([arrays, np.frombuffer(content, np.uint8)])
    _, (array,) = wire.unpack(payload, len(content))
    return array
