"""Quick batches are delivered to a rank several at a time, and none is held back for long."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from batches import bytes_of
from clocks import stopped
from waiting import wait_until

from launcher.data import service
from launcher.data.batches import wire
from launcher.data.control import messages as m
from launcher.data.memory import MARK, RETURNED, TAKEN
from launcher.data.receiver import (
    MAX_COALESCED,
    Arrivals,
    BatchBuffer,
    LocalPeer,
    ProgressReporter,
    Receiver,
    batch_buffer,
    coalesced_batches,
    local_peers,
)

#: Batches that come first, slowly: the rank has the slabs' descriptors then.
_WARM = 8


def frame(run: str, step: int) -> wire.WireFrame:
    return wire.WireFrame.pack(run, step, "worker", None, [np.zeros(9)])


class Host:
    """A store, one connection that brings batches, and a rank that returns each at once.

    clock: tells the receiver the time.
    """

    def __init__(self, clock: SimpleNamespace, budget: int = 64 << 20, warm: int = _WARM) -> None:
        self.account = ProgressReporter("algo-2", ("127.0.0.1", 1), budget)
        self.store = BatchBuffer(budget, self.account)
        # Each message to the rank is a packet, to be counted.
        ours, self._rank = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.rank = LocalPeer(ours)
        self.store.peers.add(self.rank)
        opened = m.OpenRun(run="run", rank=0, plan={})
        self.store.open_run(opened, self.rank)
        self.account.open(opened)
        self.worker, self._arriving = socket.socketpair()
        receive = Arrivals(self.store, checksums=False).receive_all
        self._thread = threading.Thread(target=receive, args=(self._arriving,), daemon=True)
        self._thread.start()
        self._steps = 0
        self._returns = False
        for _ in range(warm):
            clock.now += 1
            assert self.sends(1) == [[self._steps - 1]]
        self._returns = True
        self._return()

    def frames(self, count: int) -> bytes:
        steps = range(self._steps, self._steps + count)
        self._steps += count
        return b"".join(bytes_of(frame("run", step)) for step in steps)

    def sends(self, count: int) -> list[list[int]]:
        self.worker.sendall(self.frames(count))
        return self.shown(count)

    def shown(self, count: int) -> list[list[int]]:
        """Await so many batches; their steps, by packet."""
        packets: list[list[int]] = []
        while sum(map(len, packets)) < count:
            if steps := [word.step for word in self.hears() if isinstance(word, m.Batch)]:
                packets.append(steps)
        return packets

    def hears(self, patience: float = 20.0) -> list[m.Message | m.Batch]:
        """The messages of one packet."""
        self._rank.settimeout(patience)
        data, descriptors, _, _ = socket.recv_fds(self._rank, 1 << 16, 8)
        for descriptor in descriptors:
            os.close(descriptor)
        words = []
        while data:
            word, data = m.cut(data)
            assert word is not None
            words.append(word)
        if self._returns:
            self._return()
        return words

    def _return(self) -> None:
        for loan in list(self.rank.lent.values()):
            loan.slab.memory[MARK] = TAKEN | RETURNED

    def hears_nothing(self) -> bool:
        with contextlib.suppress(TimeoutError):
            return not self.hears(0.05)
        return True

    def end(self) -> None:
        self.worker.close()
        self._thread.join(20)

    def close(self) -> None:
        self.end()
        for connection in (self._arriving, self._rank, self.rank.connection):
            connection.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return stopped(monkeypatch, local_peers)


@pytest.fixture
def host(clock: SimpleNamespace) -> Iterator[Host]:
    host = Host(clock)
    yield host
    host.close()


def test_quick_batches_are_shown_together(clock: SimpleNamespace) -> None:
    host = Host(clock, warm=20)
    assert host.sends(13) == [[*range(20, 32)], [32]]
    assert host.sends(12) == [[*range(33, 45)]]
    host.close()


def test_a_rank_is_shown_those_that_are_less_quick_in_time(
    host: Host, clock: SimpleNamespace
) -> None:
    frames = host.frames(8)
    size = len(frames) // 8
    host.worker.sendall(frames[:1])
    for number in range(7):
        clock.now += 0.9 * local_peers.COALESCE_GAP
        arrived = host.rank.arrived
        host.worker.sendall(frames[number * size + 1 : (number + 1) * size + 1])
        wait_until(lambda arrived=arrived: host.rank.arrived > arrived)
    host.worker.sendall(frames[7 * size + 1 :])
    assert host.shown(8) == [[8, 9, 10, 11, 12, 13], [14, 15]]


def test_slow_ones_are_shown_at_once(host: Host, clock: SimpleNamespace) -> None:
    frames = host.frames(9)
    size = len(frames) // 9
    for number in range(8):
        clock.now += 2 * local_peers.COALESCE_GAP
        host.worker.sendall(frames[number * size + (number > 0) : (number + 1) * size + 1])
        assert host.shown(1) == [[8 + number]]  # while the next is on its way


def test_one_that_nothing_follows_is_shown(host: Host) -> None:
    assert host.sends(1) == [[8]]  # and the connection is open
    host.worker.sendall(host.frames(1))
    host.end()
    assert host.shown(1) == [[9]]


def test_one_is_shown_though_the_next_stays_on_its_way(host: Host) -> None:
    control = SimpleNamespace(sent=[])
    control.send = control.sent.append
    receiver = SimpleNamespace(_reporter=host.account, _buffer=host.store, _control=control)
    threading.Thread(target=Receiver._report, args=(receiver,), daemon=True).start()
    frames = host.frames(2)
    host.worker.sendall(frames[:-1])
    assert host.shown(1) == [[8]]
    host.worker.sendall(frames[-1:])
    assert host.shown(1) == [[9]]
    wait_until(lambda: control.sent)


def test_one_is_shown_though_the_next_breaks_off(host: Host) -> None:
    host.worker.sendall(host.frames(2)[:-1])
    assert host.hears_nothing()
    host.end()
    assert host.shown(1) == [[8]]


def test_each_rank_is_shown_its_own_when_nothing_follows(host: Host) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other = LocalPeer(ours)
    host.store.open_run(m.OpenRun(run="other", rank=1, plan={}), other)
    with ours, theirs:
        host.worker.sendall(bytes_of(frame("other", 0)))
        theirs.settimeout(20)
        assert theirs.recv(1 << 16)  # it is the first
        other.seen = host.rank.seen
        host.worker.sendall(bytes_of(frame("other", 1)) + host.frames(1))
        assert host.shown(1) == [[8]]
        shown, _ = m.cut(theirs.recv(1 << 16))
        assert isinstance(shown, m.Batch)
        assert (shown.run, shown.step) == ("other", 1)


def test_who_brings_a_later_one_answers_for_those_before(host: Host) -> None:
    for step in (8, 9):
        header = frame("run", step).header
        slab = host.store.take(header)
        assert slab is not None
        assert host.store.store(header, slab)
        if step == 8:
            before = host.store.arrivals_if_held("run")
    host.store.deliver_if_last("run", before)
    assert host.hears_nothing()
    host.store.deliver_if_last("run", host.store.arrivals_if_held("run"))
    assert host.shown(2) == [[8, 9]]
    assert host.store.arrivals_if_held("run") == 0


def test_what_is_held_back_for_a_rank_that_dies_is_free_again(host: Host) -> None:
    host.worker.sendall(host.frames(2)[:-1])
    assert host.hears_nothing()
    assert host.store.forget(host.rank) == ["run"]
    assert host.store.arrivals_if_held("run") == 0
    host.store.deliver_held()
    assert host.hears_nothing()
    host.end()
    assert host.store.metrics()["held"] == 0


def test_what_is_held_back_for_a_run_that_is_closed_is_free_again(host: Host) -> None:
    host.worker.sendall(host.frames(2)[:-1])
    assert host.hears_nothing()
    host.store.close_run("run")
    host.store.deliver_held()
    assert host.hears_nothing()
    host.end()
    assert host.store.metrics()["held"] == 0


@pytest.mark.parametrize("in_order", [True, False])
def test_second_copies_of_what_is_held_back_are_not_wanted(host: Host, in_order: bool) -> None:
    host.store.open_run(m.OpenRun(run="run", rank=0, plan={}, in_order=in_order), host.rank)
    header = frame("run", 0).header
    first, second = (host.store.take(header) for _ in range(2))
    assert first is not None
    assert second is not None
    assert host.store.store(header, first)
    assert host.hears_nothing()
    assert not host.store.store(header, second)
    assert host.store.take(header) is None
    host.store.deliver_held()
    assert host.shown(1) == [[0]]
    assert host.store.take(header) is None


@pytest.mark.parametrize(
    ("size", "count"), [(1 << 16, 12), (1 << 20, 12), (2 << 20, 10), (5 << 20, 4), (8 << 20, 2)]
)
def test_small_batches_are_coalesced_up_to_20_mib(size: int, count: int) -> None:
    assert coalesced_batches(size) == count


def test_large_batches_are_shown_at_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_buffer, "_MAX_COALESCED_SIZE", (1 << 16) - 1)
    assert host.sends(3) == [[8], [9], [10]]


def test_nothing_overtakes_what_is_held_back(host: Host) -> None:
    host.worker.sendall(host.frames(2)[:-1])
    assert host.hears_nothing()
    failed = m.RunFailed(run="run", kind="unavailable", message="")
    host.store.notify("run", failed)
    assert host.shown(1) == [[8]]
    assert host.hears() == [failed]


def test_a_new_slab_is_shown_with_what_is_held_back(host: Host, clock: SimpleNamespace) -> None:
    frames = host.frames(2)
    host.worker.sendall(frames[:-1])
    assert host.hears_nothing()
    waiting = host.store._runs["run"].waiting
    host.rank.seen = {slab.number for _, slab in waiting.values()}
    host.worker.sendall(frames[-1:])
    assert host.shown(2) == [[8, 9]]


def test_what_is_held_back_leaves_room_for_the_next(clock: SimpleNamespace) -> None:
    room = 4 * (1 << 16)  # of the smallest slabs
    for budget, packets in ((room, [[8, 9], [10]]), (room - 1, [[8], [9], [10]])):
        host = Host(clock, budget)
        assert host.sends(3) == packets
        host.close()


def test_what_a_local_worker_has_filled_is_shown_at_once(host: Host) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        local = LocalPeer(ours)
        host.store.peers.add(local)
        for step in (8, 9):
            host.store.lend(local, m.NeedSlab(run="run", step=step, size=100))
            filled = m.SlabFilled(
                run="run", step=step, slab=next(iter(local.lent)), size=100, content=10, worker="w"
            )
            host.store.store_filled(local, filled)
            assert host.shown(1) == [[step]]


def test_a_rank_waits_longer_than_batches_are_held_back() -> None:
    assert service._REPORT_WHEN_STARVED >= local_peers.COALESCE_GAP + local_peers.COALESCE_TIMEOUT
    assert service.MAX_COALESCED is MAX_COALESCED
