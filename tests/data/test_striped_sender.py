"""Batches in parts over several real connections, into slabs of a real store."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from batches import bytes_of, start_of
from waiting import wait_until

from launcher.data.batches import wire
from launcher.data.control import messages as m
from launcher.data.memory import SlabPool
from launcher.data.receiver import Arrivals, BatchBuffer, LocalPeer, ProgressReporter
from launcher.data.worker import StripedSender, senders
from launcher.errors import AuthenticationError, WireError
from launcher.runtime import handshake, jsonl_socket

TOKEN = "token"
PAYLOAD = np.random.default_rng(0).integers(0, 256, (5 << 20) + 17, np.uint8)


class Receiving:
    """A train host's side: a listener, a store, and a rank that is told what is handed over."""

    def __init__(self) -> None:
        self.store = BatchBuffer(64 << 20, ProgressReporter("algo-2", ("127.0.0.1", 1), 64 << 20))
        self.arrivals = Arrivals(self.store, checksums=True)
        ours, self.theirs = socket.socketpair()
        self.rank = LocalPeer(ours)
        self.store.open_run(m.OpenRun(run="run", rank=0, plan={}), self.rank)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.connections: list[socket.socket] = []
        self.ended = 0  # connections that are attended to no more
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.listener.getsockname()[1])

    def _accept(self) -> None:
        for connection, _ in jsonl_socket.accept_connections(self.listener, "test"):
            self.connections.append(connection)
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        with connection:
            try:
                handshake.accept(connection, TOKEN)
            except (AuthenticationError, OSError):  # of another test, whose server had this port;
                return  # or this test has ended
            try:
                self.arrivals.receive_all(connection)
            except (WireError, OSError):
                return
            finally:
                self.ended += 1

    def close(self) -> None:
        for connection in (self.listener, self.theirs, self.rank.connection, *self.connections):
            connection.close()

    def payloads(self) -> list[bytes]:
        """What the rank has been lent, in the order of the slabs."""
        return [bytes(loan.slab.memory) for _, loan in sorted(self.rank.lent.items())]


@pytest.fixture
def receiving() -> Iterator[Receiving]:
    receiving = Receiving()
    yield receiving
    receiving.close()


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends on one machine are to behave as if they were not."""
    monkeypatch.setattr(senders, "_is_near", lambda connection: False)
    monkeypatch.setattr(senders, "_SHARE", 1 << 20)


def frame(step: int, payload: np.ndarray = PAYLOAD) -> wire.WireFrame:
    return wire.WireFrame.pack("run", step, "algo-1/0/7", ["array", 0], [payload], checksums=True)


def content(sent: wire.WireFrame) -> bytes:
    return b"".join(bytes(buffer) for buffer in sent.buffers)


def unsent_limit(sender: StripedSender) -> int:
    return sender._connections[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_parts_are_the_frame(count: int) -> None:
    whole = frame(0)
    parts = whole.split(count, attempt=3)
    assert len(parts) == count
    assert b"".join(content(part) for part in parts) == content(whole)
    headers = [wire.read_start(part.start) for part in parts]
    assert headers == [part.header for part in parts]
    whole_bytes = whole.header.payload_bytes
    assert [header.total_bytes for header in headers] == [whole_bytes] * count
    places = [header.part for header in headers]
    assert [place and place.total for place in places] == [whole_bytes] * count
    assert [place and place.attempt for place in places] == [3] * count
    ends = np.cumsum([header.payload_bytes for header in headers])
    assert [len(content(part)) for part in parts] == np.diff(ends, prepend=0).tolist()
    assert [place and place.offset for place in places] == [0, *ends[:-1]]


@pytest.mark.usefixtures("far")
def test_a_large_batch_travels_on_several_flows_and_arrives_whole(receiving: Receiving) -> None:
    sender = StripedSender(receiving.address, TOKEN, workers=1)
    frames = [frame(step, PAYLOAD[: len(PAYLOAD) - step]) for step in range(3)]
    for sent in frames:
        sender.send(sent)
    wait_until(lambda: len(receiving.rank.lent) == 3)
    assert len(receiving.connections) == 4
    for sent, got in zip(frames, receiving.payloads(), strict=True):
        assert got.startswith(content(sent))
    sender.close()


def test_between_processes_of_one_machine_one_flow_is_used(receiving: Receiving) -> None:
    sender = StripedSender(receiving.address, TOKEN, workers=1)
    sender.send(frame(0))
    wait_until(lambda: len(receiving.rank.lent) == 1)
    assert len(receiving.connections) == 1
    assert unsent_limit(sender) == senders._UNSENT
    sender.close()


@pytest.mark.usefixtures("far")
def test_between_machines_the_kernel_keeps_what_it_has_room_for(receiving: Receiving) -> None:
    sender = StripedSender(receiving.address, TOKEN, workers=1)
    sender.send(frame(0))
    assert unsent_limit(sender) == 0  # none but the system's own
    sender.close()


@pytest.mark.parametrize(("workers", "count"), [(1, 4), (8, 2), (16, 1), (100, 1)])
@pytest.mark.usefixtures("far")
def test_many_workers_of_a_host_need_fewer_flows_each(
    receiving: Receiving, workers: int, count: int
) -> None:
    sender = StripedSender(receiving.address, TOKEN, workers=workers)
    sender.send(frame(0))
    wait_until(lambda: len(receiving.rank.lent) == 1)
    assert len(receiving.connections) == count
    sender.close()


def test_a_worker_that_dies_between_parts_leaves_no_memory_behind(
    receiving: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    balance: list[int] = []
    give, take = SlabPool.release, SlabPool.take
    monkeypatch.setattr(SlabPool, "release", lambda *args: (balance.append(-1), give(*args)))
    monkeypatch.setattr(SlabPool, "take", lambda *args: (balance.append(1), take(*args))[1])
    parts = frame(0).split(3, attempt=0)
    connections = [
        jsonl_socket.connect(receiving.address, TOKEN, timeout=5, peer="test") for _ in parts
    ]
    parts[0].send(connections[0])
    connections[1].sendall(parts[1].start + content(parts[1])[:1000])
    for connection in connections:
        connection.close()
    wait_until(lambda: receiving.ended == len(parts))
    assert balance, "no part has come"
    assert sum(balance) == 0
    assert receiving.rank.lent == {}
    # the same batch, tried anew, is wanted still, and finds the same memory
    whole = frame(0)
    sender = StripedSender(receiving.address, TOKEN, workers=1)
    sender.send(whole)
    wait_until(lambda: list(receiving.rank.lent) == [1])
    assert receiving.payloads()[0].startswith(content(whole))
    sender.close()


@pytest.mark.usefixtures("far")
def test_a_batch_whose_flow_breaks_can_be_sent_again(receiving: Receiving) -> None:
    sender = StripedSender(receiving.address, TOKEN, workers=1)
    sender.send(frame(0))
    wait_until(lambda: len(receiving.rank.lent) == 1)
    receiving.connections[2].shutdown(socket.SHUT_RDWR)
    step = _send_until_it_breaks(sender)
    sender.send(frame(step))
    wait_until(lambda: not receiving.store.wants(frame(step).header))
    sender.close()


def _send_until_it_breaks(sender: StripedSender) -> int:
    """The step that was not sent: a broken connection may take some batches in."""
    for step in range(1, 100):
        try:
            sender.send(frame(step))
        except OSError:  # noqa: PERF203 - the first ends it
            return step
    pytest.fail("a broken connection takes everything in")


@pytest.mark.parametrize(
    ("size", "offset"),
    [(20, 90), (101, 0), (10, 100), (1 << 40, 0)],
    ids=["its end", "all of it", "its start", "a tebibyte"],
)
def test_parts_that_do_not_fit_their_batch_are_refused(
    receiving: Receiving, size: int, offset: int
) -> None:
    with jsonl_socket.connect(receiving.address, TOKEN, timeout=5, peer="test") as connection:
        connection.sendall(start_of(payload=size, content=10, offset=offset, total=100))
        assert connection.recv(1) == b""


def test_parts_of_one_batch_with_two_sizes_are_refused(receiving: Receiving) -> None:
    first, second, _ = frame(0).split(3, attempt=0)
    assert second.header.part is not None
    longer = replace(second.header.part, total=second.header.part.total + 1)
    with jsonl_socket.connect(receiving.address, TOKEN, timeout=5, peer="test") as connection:
        first.send(connection)
        connection.sendall(replace(second, header=replace(second.header, part=longer)).start)
        assert connection.recv(1) == b""


# The store -------------------------------------------------------------------------------------


def test_memory_is_given_to_batches_that_are_wanted_and_for_the_whole_of_them(
    receiving: Receiving,
) -> None:
    store, header = receiving.store, frame(0).header
    assert store.take(replace(header, run="of no rank")) is None
    part = frame(0).split(3, attempt=0)[2].header
    slab, second = store.take(part), store.take(header)
    assert slab is not None
    assert second is not None
    assert second is not slab
    assert min(slab.size, second.size) > header.payload_bytes
    assert store.store(header, slab)
    assert not store.store(header, second)  # another worker was quicker
    assert not store.store(replace(header, run="of no rank"), second)
    assert store.take(header) is None
    assert store.take(part) is None
    assert store.take(replace(header, step=1)) is not None
    receiving.store.close_run("run")
    assert store.take(replace(header, step=2)) is None


@pytest.mark.parametrize("total", [0, 1 << 40], ids=["whole", "in parts"])
def test_a_batch_that_this_host_could_never_hold_is_refused(
    receiving: Receiving, total: int
) -> None:
    size = 10 if total else 1 << 40
    start = start_of(payload=size, content=10, total=total)
    header = wire.read_start(start)
    assert header.total_bytes == 1 << 40
    assert not receiving.store.admit(header)
    assert receiving.store.admit(replace(header, run="of no rank"))  # it is passed over
    assert receiving.store.admit(frame(0).header)
    with jsonl_socket.connect(receiving.address, TOKEN, timeout=5, peer="test") as connection:
        connection.sendall(start)
        assert connection.recv(1) == b""


def test_what_is_not_wanted_is_passed_over_and_the_next_batch_is_read(
    receiving: Receiving,
) -> None:
    connection = jsonl_socket.connect(receiving.address, TOKEN, timeout=5, peer="test")
    first, second = frame(0), frame(1, PAYLOAD[:1000])
    for sent in (first, first, *first.split(2, attempt=1), of_no_rank(first), second):
        connection.sendall(bytes_of(sent))
    wait_until(lambda: len(receiving.rank.lent) == 2)
    for sent, got in zip((first, second), receiving.payloads(), strict=True):
        assert got.startswith(content(sent))
    connection.close()


def of_no_rank(sent: wire.WireFrame) -> wire.WireFrame:
    return replace(sent, header=replace(sent.header, run="of no rank"))


def test_a_slab_is_used_again_for_a_batch_that_is_a_little_smaller() -> None:
    retired: list[int] = []
    pool = SlabPool(100 << 20, lambda slab: retired.append(slab.number))
    first = pool.take(40 << 20)
    pool.release(first)
    assert pool.take(36 << 20) is first
    pool.release(first)
    second = pool.take(8 << 20)  # a fifth of it would be used
    assert second is not first
    third = pool.take((80 << 20) - 2)  # together they would be more than is kept
    assert retired == [first.number]
    assert third.size == 80 << 20


def test_a_closed_listener_accepts_no_connection_and_logs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.close()
    assert list(jsonl_socket.accept_connections(listener, "test")) == []
    assert capsys.readouterr().err == ""
