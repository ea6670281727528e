"""Frames byte by byte: what is sent, what is read, and what is refused."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import numpy as np
import pytest
from batches import bytes_of

from launcher.data.batches import wire
from launcher.data.memory.slabs import SlabPool
from launcher.errors import DataError, WireError


def test_a_frame_is_laid_out_as_the_protocol_says() -> None:
    parts = [
        np.arange(3, dtype="<u2"),
        np.zeros((0, 2), "<f4"),
        np.array([True]),
        np.ones(65, "u1"),
    ]
    frame = wire.Frame.pack("run", 7, "worker", ["list"], parts)
    content = b'[["list"],[["<u2",[3],0],["<f4",[0,2],64],["|b1",[1],64],["|u1",[65],128]]]'
    assert frame.header == b'["run",7,"worker",%d]' % len(content)
    assert frame.payload_bytes == 128 + 65 + len(content)
    payload = b"".join(bytes(buffer) for buffer in frame.buffers)
    arrays = b"\0\0\1\0\2\0".ljust(64, b"\0") + b"\1".ljust(64, b"\0") + b"\1" * 65
    assert payload == arrays + content
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(20)
        frame.send(here)
        sent = there.recv(1 << 16)
    prefix = struct.pack("<4sIQI", b"LDF2", len(frame.header), len(payload), 0)
    assert sent == prefix + frame.header + payload


@pytest.mark.parametrize(
    ("header", "payload", "fits"),
    [
        (wire.HEADER_LIMIT, wire.PAYLOAD_LIMIT, True),
        (wire.HEADER_LIMIT + 1, 0, False),
        (0, wire.PAYLOAD_LIMIT + 1, False),
    ],
)
def test_a_frame_may_be_as_large_as_the_limits(header: int, payload: int, fits: bool) -> None:
    prefix = struct.pack("<4sIQI", wire.MAGIC, header, payload, 7)
    if fits:
        assert wire.read_prefix(prefix) == wire.Prefix(
            header_bytes=header, payload_bytes=payload, checksum=7
        )
    else:
        with pytest.raises(WireError, match="beyond the limits"):
            wire.read_prefix(prefix)


def test_the_limits_are_those_of_the_other_side() -> None:
    assert (wire.HEADER_LIMIT, wire.PAYLOAD_LIMIT, wire.ALIGNMENT) == (4096, 1 << 40, 64)


def test_a_frame_at_its_limits_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wire.Frame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "HEADER_LIMIT", len(frame.header))
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", frame.payload_bytes)
    wire.Frame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", frame.payload_bytes - 1)
    with pytest.raises(DataError, match="at most"):
        wire.Frame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])


def test_what_is_sent_in_bits_arrives_whole() -> None:
    """A socket that takes a few bytes at a time, as one does whose other side is slow."""

    class Narrow:
        def __init__(self) -> None:
            self.taken = b""

        def sendmsg(self, buffers: list[memoryview]) -> int:
            assert len(buffers) <= 1000  # IOV_MAX
            assert all(len(buffer) for buffer in buffers)
            piece = b"".join(map(bytes, buffers))[: 1 + len(self.taken) % 37]
            self.taken += piece
            return len(piece)

    arrays = [np.full(size % 5, size % 251, np.uint8) for size in range(700)]
    frame = wire.Frame.pack("r", 0, "w", None, arrays)
    narrow = Narrow()
    frame.send(narrow)  # type: ignore[arg-type]
    assert narrow.taken == bytes_of(frame)


def test_the_end_of_the_other_side_is_noticed() -> None:
    here, there = socket.socketpair()
    with there:
        there.settimeout(20)
        with here:
            here.sendall(b"abc")
        target = bytearray(4)
        assert not wire.receive_exactly(there, memoryview(target))
        assert target[:3] == b"abc"
        assert wire.receive_exactly(there, memoryview(b""))


def test_what_is_skipped_is_not_read_again() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(20)
        here.sendall(bytes(3000) + b"next")
        assert wire.skip(there, 3000)
        assert there.recv(10) == b"next"
        here.close()
        assert not wire.skip(there, 1)


def test_a_header_is_read_as_it_is() -> None:
    header = wire.read_header(b'["r", 2, "w", 30]')
    assert header == wire.Header(run="r", step=2, worker="w", content_bytes=30)


@pytest.mark.parametrize(
    "text",
    [
        *(b"[]", b"3", b"null", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"{}"),
        *(b'["r",0,"w"]', b'["r",0,"w",1,1]', b'[1,0,"w",1]', b'["r","0","w",1]'),
        *(b'["r",0,null,1]', b'["r",0,"w",1.0]', b'["r",true,"w",1]'),
        *(b'["r",-1,"w",1]', b'["r",0,"w",-1]', b'{"r":0,"s":1,"w":2,"c":3}'),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_no_header_is_refused(text: bytes) -> None:
    with pytest.raises(WireError, match="damaged header"):
        wire.read_header(text)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        *((b"[1,[]]", 0), (b"[1,[]]", 7), (b"[1,[]]", -1), (b"[1,[]]", 3)),
        *((text, len(text)) for text in (b"[1]", b"[1,2]", b"[1,[],1]", b"[" * 100_000, b"\xff")),
    ],
    ids=str,
)
def test_what_is_no_content_is_refused(content: bytes, count: int) -> None:
    with pytest.raises(WireError):
        wire.unpack(np.frombuffer(content, np.uint8), count)


def test_a_checksum_covers_every_byte_of_a_frame() -> None:
    sent = bytes_of(wire.Frame.pack("r", 1, "w", 0, [np.arange(5)], checksums=True))

    def is_intact(data: bytes) -> bool:
        prefix = wire.read_prefix(data)
        end = wire.PREFIX_BYTES + prefix.header_bytes
        header, payload = data[wire.PREFIX_BYTES : end], data[end:]
        return wire.is_intact(prefix, bytearray(header), memoryview(payload))

    assert is_intact(sent)
    for place in range(len(wire.MAGIC), len(sent)):
        damaged = bytearray(sent)
        damaged[place] ^= 1 << place % 8
        try:
            assert not is_intact(bytes(damaged))
        except WireError:
            assert place < wire.PREFIX_BYTES  # sizes beyond the limits


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        (["<f8", [8], 0], [0.0] * 8),
        (["<f8", [1], 56], [0.0]),
        (["|u1", [0], 64], []),
        (["|u1", [], 63], 0),
        (["<f8", [0, 5], 0], []),
    ],
    ids=str,
)
def test_an_array_may_lie_anywhere_inside_its_frame(entry: Any, values: Any) -> None:
    (array,) = wire.view_arrays([entry], np.zeros(64, np.uint8))
    assert array.tolist() == values
    assert array.dtype.str == entry[0]


@pytest.mark.parametrize(
    "entry",
    [
        ["<f8", [9], 0],
        ["<f8", [1], 57],
        ["|u1", [1], 64],
        ["|u1", [0], -1],
        ["|V8", [1], 0],
        ["|O", [1], 0],
        ["<f8", [1000], 0],
        ["<f8", [-1], 0],
        ["<f8", [-1, -1], 0],
        ["<f8", [2], -8],
        ["<f8", [1], 1 << 80],
        ["nonsense", [1], 0],
        ["f8,f8", [1], 0],
        ["(2,2)<f8", [1], 0],
        [["<f8"], [1], 0],
        ["<f8", "ab", 0],
        ["<f8", [1.5], 0],
        ["<f8", [1], "0"],
        ["<f8", [1]],
        ["<f8", [1 << 62, 4], 0],
        ["<f8", [0, 1 << 80], 0],
        ["<f8", [1] * 65, 0],
        ["<U999999999", [1], 0],
        ["<M8[fortnights]", [1], 0],
        None,
    ],
    ids=lambda entry: str(entry)[:40],
)
def test_an_array_outside_of_its_frame_or_of_no_plain_kind_is_refused(entry: Any) -> None:
    with pytest.raises(WireError):
        wire.view_arrays([entry], np.zeros(64, np.uint8))


def test_arrays_are_views_of_their_payload() -> None:
    payload = np.zeros(64, np.uint8)
    (array,) = wire.view_arrays([["<u2", [2], 2]], payload)
    array[1] = 513
    assert payload[4:6].tolist() == [1, 2]


#: Bytes around the steps in which the kernel gathers them.
_NEAR_STEPS = [near + more for near in (1 << 17, 1 << 20) for more in (-1, 0, 1)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [0, 1, *_NEAR_STEPS, (4 << 20) + (1 << 20), (9 << 20) + 5])
def test_a_frame_is_complete_with_its_last_byte_and_not_one_later(size: int) -> None:
    """The kernel wakes the receiver for many bytes at once; the last are never waited for."""
    sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    with here, there:
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:  # what is left at the end comes in dribbles
            most = max(0, size - 1000)
            here.sendall(sent[:most])
            for first in range(most, size, 100):
                here.sendall(sent[first : first + 100])

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        received = np.zeros(size, np.uint8)
        assert wire.receive_exactly(there, memoryview(received))
        assert np.array_equal(received, sent)
        here.sendall(b"x")  # the next frame is heard from its first byte on
        assert wire.receive_exactly(there, memoryview(bytearray(1)))
        sender.join()


@pytest.mark.timeout(60)
def test_who_ends_within_a_frame_is_noticed() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(bytes(1000))
        here.shutdown(socket.SHUT_WR)
        assert not wire.receive_exactly(there, memoryview(bytearray(3 << 20)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_batch_above_2_gib_survives() -> None:
    """Past every 32-bit number on the way: sendmsg, MSG_WAITALL, mmap and the checksum."""
    size = (2 << 30) + (200 << 20) + 13
    pool = SlabPool(0, lambda slab: None)
    made = pool.take(size)
    array = np.frombuffer(made.memory, np.uint8)[:size]
    for first in range(0, size, 1 << 24):
        block = array[first : first + (1 << 24)]
        block[:] = np.random.default_rng(first).integers(0, 256, len(block), np.uint8)
    frame = wire.Frame.pack("r", 0, "w", ["array", 0], [array], checksums=True)
    here, there = socket.socketpair()
    with here, there:
        sender = threading.Thread(target=frame.send, args=(here,), daemon=True)
        sender.start()
        start = bytearray(wire.PREFIX_BYTES)
        assert wire.receive_exactly(there, memoryview(start))
        prefix = wire.read_prefix(start)
        named = bytearray(prefix.header_bytes)
        assert wire.receive_exactly(there, memoryview(named))
        slab = pool.take(prefix.payload_bytes)
        with memoryview(slab.memory)[: prefix.payload_bytes] as payload:
            assert wire.receive_exactly(there, payload)
            assert wire.is_intact(prefix, named, payload)
        sender.join()
    whole = np.frombuffer(slab.memory, np.uint8)[: prefix.payload_bytes]
    _, (received,) = wire.unpack(whole, wire.read_header(named).content_bytes)
    assert received.shape == (size,)
    assert all(
        np.array_equal(received[first : first + (1 << 24)], array[first : first + (1 << 24)])
        for first in range(0, size, 1 << 24)
    )
