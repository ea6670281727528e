"""Frames byte by byte: what is sent, what is read, and what is refused."""

from __future__ import annotations

import socket
import threading
import zlib
from typing import Any

import numpy as np
import pytest
from batches import bytes_of, content_of, read_frame, start_of, view_of

from launcher.data.batches import wire
from launcher.errors import DataError, WireError


def test_a_frame_is_laid_out_as_the_protocol_says() -> None:
    parts = [
        np.arange(3, dtype="<u2"),
        np.zeros((0, 2), "<f4"),
        np.array([True]),
        np.ones(65, "u1"),
    ]
    frame = wire.WireFrame.pack("run", 7, "worker", ["list"], parts)
    content = b'[["list"],[["<u2",[3],0],["<f4",[0,2],64],["|b1",[1],64],["|u1",[65],128]]]'
    assert frame.header == wire.Header(
        run="run",
        step=7,
        worker="worker",
        payload_bytes=128 + 65 + len(content),
        content_bytes=len(content),
    )
    payload = b"".join(bytes(buffer) for buffer in frame.buffers)
    arrays = b"\0\0\1\0\2\0".ljust(64, b"\0") + b"\1".ljust(64, b"\0") + b"\1" * 65
    assert payload == arrays + content
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(20)
        frame.send(here)
        sent = there.recv(1 << 16)
    start = (
        *(b"LDF3", bytes(4), len(payload).to_bytes(8, "little")),
        *(len(content).to_bytes(8, "little"), b"\7".ljust(8, b"\0")),
        *(bytes(3 * 8), b"\3\0", b"\6\0", b"run", b"worker"),
    )
    assert sent == b"".join(start).ljust(512, b"\0") + payload


def test_a_part_with_a_checksum_is_laid_out_as_the_protocol_says() -> None:
    whole = wire.WireFrame.pack(
        "r\xfcn", 7, "algo-\u4e00", None, [np.zeros(101, "u1")], checksums=True
    )
    payload = b"".join(bytes(buffer) for buffer in whole.buffers)
    first, second = whole.split(2, attempt=5)
    offset = first.header.payload_bytes
    assert 2 * offset == len(payload) + 1  # the second is a byte shorter
    size, content = len(payload) - offset, whole.header.content_bytes

    def start(checksum: int) -> bytes:
        return start_of(
            *(b"r\xc3\xbcn", b"algo-\xe4\xb8\x80"),
            **{"payload": size, "content": content, "step": 7},
            **{"attempt": 5, "offset": offset, "total": len(payload), "checksum": checksum},
        )

    checksum = zlib.crc32(start(0)[8:] + payload[offset:])
    assert bytes_of(second) == start(checksum) + payload[offset:]
    assert wire.read_start(second.start) == second.header


@pytest.mark.parametrize(
    ("payload", "total", "fits"),
    [
        (wire.PAYLOAD_LIMIT, 0, True),
        (wire.PAYLOAD_LIMIT, wire.PAYLOAD_LIMIT, True),
        (wire.PAYLOAD_LIMIT + 1, 0, False),
        (wire.PAYLOAD_LIMIT + 1, 1, False),
        (1, wire.PAYLOAD_LIMIT + 1, False),
        ((1 << 64) - 1, 0, False),
        (1, (1 << 64) - 1, False),
    ],
)
def test_a_frame_may_be_as_large_as_the_limits(payload: int, total: int, fits: bool) -> None:
    start = start_of(payload=payload, total=total)
    if fits:
        header = wire.read_start(start)
        assert (header.payload_bytes, header.total_bytes) == (payload, wire.PAYLOAD_LIMIT)
    else:
        with pytest.raises(WireError, match="beyond the limits"):
            wire.read_start(start)


def test_the_limits_are_those_of_the_other_side() -> None:
    assert (wire.START_BYTES, wire.PAYLOAD_LIMIT, wire.ALIGNMENT) == (512, 1 << 40, 64)


def test_a_frame_at_its_limits_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wire.WireFrame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", frame.header.payload_bytes)
    wire.WireFrame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", frame.header.payload_bytes - 1)
    with pytest.raises(DataError, match="at most"):
        wire.WireFrame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])


@pytest.mark.parametrize(
    ("run", "worker"),
    [
        ("r" * 226, "w" * 226),
        ("r" * 452, ""),
        ("", "w" * 452),
        ("\xe9" * 113, "\u4e00" * 75 + "w"),
        ("\U0001f40d" * 56, "a\0b" + "w" * 225),
    ],
    ids=["both", "a run", "a worker", "not ASCII", "beyond 16 bits, and a zero"],
)
def test_names_may_be_as_long_as_they_fit(run: str, worker: str) -> None:
    frame = wire.WireFrame.pack(run, 1, worker, None, [])
    assert len(frame.start) == wire.START_BYTES
    header = wire.read_start(frame.start)
    assert (header.run, header.worker) == (run, worker)
    for longer in (("r" + run, worker), (run, worker + "w"), (run, worker + "w" * 70_000)):
        too_long = wire.WireFrame.pack(longer[0], 1, longer[1], None, [])
        with pytest.raises(DataError, match="too long to be sent"):
            _ = too_long.start


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
    frame = wire.WireFrame.pack("r", 0, "w", None, arrays)
    narrow = Narrow()
    frame.send(narrow)  # type: ignore[arg-type]
    assert narrow.taken == bytes_of(frame)


def test_what_is_skipped_is_not_read_again() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(20)
        here.sendall(bytes(3000) + b"next")
        assert wire.skip(there, 3000)
        assert there.recv(10) == b"next"
        here.close()
        assert not wire.skip(there, 1)


DAMAGED = {
    "a part at its end": start_of(offset=6, total=6),
    "a part beyond its end": start_of(offset=7, total=6),
    "a part far beyond its end": start_of(offset=(1 << 64) - 1, total=6),
    "a run that is too long": start_of(lengths=(453, 0)),
    "a worker that is too long": start_of(lengths=(0, 453)),
    "both": start_of(lengths=(226, 227)),
    "a run of 64 KiB": start_of(lengths=(65535, 1)),
    "a worker of 64 KiB": start_of(lengths=(1, 65535)),
    "both of 64 KiB": start_of(lengths=(65535, 65535)),
    "a run that is no text": start_of(b"\xff"),
    "a worker that is no text": start_of(b"r", b"\xff"),
    "a letter in both": start_of("r\xe9".encode(), b"w", lengths=(2, 2)),
    "half a pair in UTF-16": start_of(b"\xed\xa0\x80"),
    "two thirds of a letter": start_of("\u4e00".encode(), lengths=(2, 0)),
}


@pytest.mark.parametrize("start", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_start_is_refused(start: bytes) -> None:
    for data in (start, bytearray(start), memoryview(start)):
        with pytest.raises(WireError, match="damaged start"):
            wire.read_start(data)


@pytest.mark.parametrize("magic", [b"LDF2", b"LDF4", b"ldf3", b"\0\0\0\0", b"[[[[", b"GET "])
def test_what_is_no_start_is_refused(magic: bytes) -> None:
    with pytest.raises(WireError, match="not a frame"):
        wire.read_start(magic + start_of()[4:])


def test_a_frame_that_is_cut_anywhere_is_none() -> None:
    sent = bytes_of(wire.WireFrame.pack("r", 1, "w", 0, [np.arange(5)]))
    for end in range(len(sent) + 1):
        here, there = socket.socketpair()
        with there:
            there.settimeout(20)
            with here:
                here.sendall(sent[:end])
            assert (read_frame(there) is None) == (end < len(sent))


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
    sent = bytes_of(wire.WireFrame.pack("r", 1, "w", 0, [np.arange(5)], checksums=True))

    def is_intact(data: bytes) -> bool:
        start, payload = data[: wire.START_BYTES], data[wire.START_BYTES :]
        return wire.is_intact(bytearray(start), memoryview(payload))

    assert is_intact(sent)
    for place in range(len(sent)):
        damaged = bytearray(sent)
        damaged[place] ^= 1 << place % 8
        if place < len(wire.MAGIC):
            with pytest.raises(WireError, match="not a frame"):
                wire.read_start(damaged)
        else:
            assert not is_intact(bytes(damaged)), place


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
    array = view_of(entry, np.zeros(64, np.uint8))
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
        ["<f8", [1 << 40, "a"], 0],
        ["<f8", [1 << 33, [0]], 0],
        ["<U999999999", [1], 0],
        ["<M8[fortnights]", [1], 0],
        None,
    ],
    ids=lambda entry: str(entry)[:40],
)
def test_an_array_outside_of_its_frame_or_of_no_plain_kind_is_refused(entry: Any) -> None:
    with pytest.raises(WireError):
        view_of(entry, np.zeros(64, np.uint8))


@pytest.mark.parametrize(
    "entry",
    [["<u2", [10**300] * 64, 0], ["<u2", [2], 10**4299]],
    ids=["its sizes multiply", "its offset"],
)
def test_an_array_of_more_digits_than_python_prints_is_damaged(entry: list[object]) -> None:
    content = content_of(entry)
    payload = np.frombuffer(content, np.uint8)
    with pytest.raises(WireError, match="larger than a batch can be"):
        wire.unpack(payload, len(content))


#: Bytes around the steps in which the kernel gathers them.
_NEAR_STEPS = [near + more for near in (1 << 17, 1 << 18, 1 << 20, 1 << 21) for more in (-1, 0, 1)]


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


def test_who_ends_within_a_frame_is_noticed() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(bytes(1000))
        here.shutdown(socket.SHUT_WR)
        assert not wire.receive_exactly(there, memoryview(bytearray(3 << 20)))
