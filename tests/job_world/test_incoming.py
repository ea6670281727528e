"""What one connection brings: frames whose starts are read with the ends of those before them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest
from batches import bytes_of, start_of
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.data.batches import wire
from launcher.data.receiver.incoming import Incoming
from launcher.errors import WireError


class Connection:
    """Where frames are sent, and what reads them."""

    def __init__(self) -> None:
        self.sender, self.socket = socket.socketpair()
        self.socket.settimeout(20)
        self.incoming = Incoming(self.socket)

    def receives(self, size: int) -> bytes:
        payload = np.empty(size, np.uint8)
        assert self.incoming.receive(payload.data)
        return payload.tobytes()

    def close(self) -> None:
        self.sender.close()
        self.socket.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = Connection()
    yield connection
    connection.close()


def frame(step: int, *, worker: str = "worker", size: int = 9, run: str = "run") -> wire.Frame:
    content = np.random.default_rng(step).integers(0, 256, size, np.uint8)
    return wire.Frame.pack(run, step, worker, ["array", 0], [content], checksums=True)


frames = st.builds(
    frame,
    st.integers(0, (1 << 64) - 1),
    worker=st.sampled_from(["a", "b", "ab"]),
    run=st.sampled_from(["b", "ab", "a"]),
    size=st.sampled_from([1, 2, 3000]),
)
parts = st.tuples(frames, st.integers(2, 3)).map(lambda drawn: drawn[0].split(drawn[1], attempt=1))
sequences = st.lists(frames.map(lambda whole: [whole]) | parts, max_size=4).map(
    lambda several: [each for some in several for each in some]
)


@settings(deadline=None)
@given(sequences, st.data())
def test_frames_are_read_as_they_are_however_much_has_come(
    sequence: list[wire.Frame], data: st.DataObject
) -> None:
    connection, sent = Connection(), 0
    everything = b"".join(map(bytes_of, sequence))
    ends = np.cumsum([len(bytes_of(each)) for each in sequence])
    for each, end in zip(sequence, ends, strict=True):
        ahead = data.draw(st.sampled_from([0, 1, 511, 512, 513, 1500]), "bytes of what follows")
        come = max(sent, min(len(everything), int(end) + ahead))
        connection.sender.sendall(everything[sent:come])
        sent = come
        assert connection.incoming.start() == each.header
        payload = connection.receives(each.header.payload_bytes)
        assert payload == b"".join(map(bytes, each.buffers))
        assert connection.incoming.is_intact(memoryview(payload))
        assert connection.incoming.has_more == (sent > end)
    connection.sender.close()
    assert connection.incoming.start() is None
    connection.close()


@pytest.mark.parametrize("place", range(60 + len("runworker") + 1))
def test_a_start_that_differs_from_the_one_before_is_read_anew(
    connection: Connection, place: int
) -> None:
    first = start_of(b"run", b"worker", payload=4, content=3, step=5)
    other = bytearray(first)
    other[place] ^= 1
    connection.sender.sendall(first + b"1234" + other)
    connection.incoming.start()
    assert connection.receives(4) == b"1234"
    try:
        expected = wire.read_start(other)
    except WireError as error:
        with pytest.raises(WireError, match=str(error)[:20]):
            connection.incoming.start()
    else:
        assert connection.incoming.start() == expected


def test_a_part_is_no_whole_batch_although_the_rest_is_alike(connection: Connection) -> None:
    whole = start_of(payload=4, content=3, step=1)
    part = start_of(payload=4, content=3, step=1, attempt=1, offset=4, total=8)
    connection.sender.sendall(whole + b"1234" + part + b"5678" + part)
    connection.incoming.start()
    connection.receives(4)
    header = connection.incoming.start()
    assert header is not None
    assert header.part == wire.Part(attempt=1, offset=4, total=8)
    assert header.total_bytes == 8
    connection.receives(4)
    assert connection.incoming.start() == header


@pytest.mark.parametrize("count", [0, 1, 511])
def test_the_end_within_a_start_is_an_end(connection: Connection, count: int) -> None:
    first, second = frame(1), frame(2)
    end = len(bytes_of(first)) + count
    connection.sender.sendall((bytes_of(first) + bytes_of(second))[:end])
    connection.sender.close()
    connection.incoming.start()
    connection.receives(first.header.payload_bytes)
    assert connection.incoming.start() is None


@pytest.mark.parametrize("size", [100, 300 << 10])
def test_the_end_within_a_payload_is_noticed(connection: Connection, size: int) -> None:
    sent = bytes_of(frame(1, size=size))
    connection.sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    connection.sender.sendall(sent[:-1])
    connection.sender.close()
    header = connection.incoming.start()
    assert header is not None
    assert not connection.incoming.receive(memoryview(bytearray(header.payload_bytes)))


def test_what_is_skipped_ends_where_the_next_frame_begins(connection: Connection) -> None:
    several = [frame(step, size=5000) for step in range(3)]
    connection.sender.sendall(b"".join(map(bytes_of, several)))
    first, second, third = several
    connection.incoming.start()
    connection.receives(first.header.payload_bytes)
    assert connection.incoming.has_more
    assert connection.incoming.start() == second.header
    assert connection.incoming.skip(second.header.payload_bytes)
    assert not connection.incoming.has_more
    assert connection.incoming.start() == third.header
    connection.sender.close()
    assert not connection.incoming.skip(third.header.payload_bytes + 1)
