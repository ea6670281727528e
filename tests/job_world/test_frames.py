"""Frames byte by byte: what is sent, what is read, and what is refused."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

import numpy as np
import pytest

from launcher.data import wire
from launcher.errors import DataError, WireError


def test_a_frame_is_laid_out_as_the_protocol_says() -> None:
    parts = [
        np.arange(3, dtype="<u2"),
        np.zeros((0, 2), "<f4"),
        np.array([True]),
        np.ones(65, "u1"),
    ]
    frame = wire.Frame.pack("run", 7, "worker", {"list": []}, parts)
    assert frame.header == (
        b'{"run":"run","step":7,"worker":"worker","tree":{"list":[]},'
        b'"arrays":[["<u2",[3],0],["<f4",[0,2],64],["|b1",[1],64],["|u1",[65],128]]}'
    )
    assert frame.payload_bytes == 128 + 65
    payload = b"".join(bytes(buffer) for buffer in frame.buffers)
    assert payload == (b"\0\0\1\0\2\0".ljust(64, b"\0") + b"\1".ljust(64, b"\0") + b"\1" * 65)
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(20)
        frame.send(here)
        sent = there.recv(1 << 16)
    assert sent == struct.pack("<4sIQ", b"LDF1", len(frame.header), 193) + frame.header + payload


@pytest.mark.parametrize(
    ("header", "payload", "fits"),
    [
        (wire.HEADER_LIMIT, wire.PAYLOAD_LIMIT, True),
        (wire.HEADER_LIMIT + 1, 0, False),
        (0, wire.PAYLOAD_LIMIT + 1, False),
    ],
)
def test_a_frame_may_be_as_large_as_the_limits(header: int, payload: int, fits: bool) -> None:
    prefix = struct.pack("<4sIQ", wire.MAGIC, header, payload)
    if fits:
        assert wire.read_prefix(prefix) == (header, payload)
    else:
        with pytest.raises(WireError, match="beyond the limits"):
            wire.read_prefix(prefix)


def test_the_limits_are_those_of_the_other_side() -> None:
    assert (wire.HEADER_LIMIT, wire.PAYLOAD_LIMIT, wire.ALIGNMENT) == (64 << 20, 1 << 40, 64)


def test_a_frame_at_its_limits_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wire.Frame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "HEADER_LIMIT", len(frame.header))
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", 100)
    wire.Frame.pack("r", 0, "w", None, [np.zeros(100, np.uint8)])
    monkeypatch.setattr(wire, "PAYLOAD_LIMIT", 99)
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
    expected = struct.pack("<4sIQ", wire.MAGIC, len(frame.header), frame.payload_bytes)
    assert narrow.taken == expected + frame.header + b"".join(map(bytes, frame.buffers))


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


HEADER = {"run": "r", "step": 0, "worker": "w", "tree": None, "arrays": []}


def test_a_header_is_read_as_it_is() -> None:
    assert wire.read_header(json.dumps(HEADER).encode()) == HEADER


@pytest.mark.parametrize("name", HEADER)
def test_a_header_without_a_part_is_refused(name: str) -> None:
    rest = {key: value for key, value in HEADER.items() if key != name}
    with pytest.raises(WireError, match="damaged header"):
        wire.read_header(json.dumps(rest).encode())


@pytest.mark.parametrize(
    ("name", "value"), [("run", 1), ("step", "0"), ("worker", None), ("arrays", {})]
)
def test_a_header_with_a_part_of_another_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(WireError, match="damaged header"):
        wire.read_header(json.dumps({**HEADER, name: value}).encode())


@pytest.mark.parametrize("text", [b"[]", b"3", b"null", b"{", b"\xff"])
def test_what_is_no_header_is_refused(text: bytes) -> None:
    with pytest.raises(WireError, match="damaged header"):
        wire.read_header(text)


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
    [["<f8", [9], 0], ["<f8", [1], 57], ["|u1", [1], 64], ["|u1", [0], -1], ["|V8", [1], 0]],
    ids=str,
)
def test_an_array_outside_of_its_frame_or_of_no_plain_kind_is_refused(entry: Any) -> None:
    with pytest.raises(WireError):
        wire.view_arrays([entry], np.zeros(64, np.uint8))


def test_arrays_are_views_of_their_payload() -> None:
    payload = np.zeros(64, np.uint8)
    (array,) = wire.view_arrays([["<u2", [2], 2]], payload)
    array[1] = 513
    assert payload[4:6].tolist() == [1, 2]
