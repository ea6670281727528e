"""What a neighbour is told comes in order, whether it reads at once or late."""

from __future__ import annotations

import collections
import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
from waiting import wait_until

from launcher.data.control import messages as m
from launcher.data.memory import MARK, RETURNED, SEEN, TAKEN, SlabPool, SlabViews
from launcher.data.receiver import LocalPeer
from launcher.runtime import jsonl_socket

COUNT = 5000  # messages: more than a connection takes at once


def test_a_slow_local_peer_gets_all_messages_in_order_without_delaying_others() -> None:
    ours, theirs = socket.socketpair()
    neighbour = LocalPeer(ours)
    sender = threading.Thread(target=neighbour.send_all, daemon=True)
    sender.start()
    slab = SlabPool(1 << 20, retire=lambda _: None).take(1)
    for step in range(COUNT):  # in this very thread, which reads only afterwards
        new = step in (0, COUNT - 1)
        batch = m.Batch(run="run", step=step, slab=1, size=1, new=new, content=1)
        neighbour.deliver([(batch, slab)])
    neighbour.end()

    data, descriptors, told = b"", [], []
    while True:
        piece, found, _, _ = socket.recv_fds(theirs, 65536, 8)
        if not piece:
            break
        data += piece
        descriptors += found
        while data:
            message, data = m.cut(data)
            if message is None:
                break
            told.append(message)
    sender.join(10)
    theirs.close()

    assert [message.step for message in told if isinstance(message, m.Batch)] == list(range(COUNT))
    assert len(descriptors) == 2
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_closed_local_peer_gets_nothing_and_harms_no_other() -> None:
    ours, theirs = socket.socketpair()
    neighbour = LocalPeer(ours)
    theirs.close()
    neighbour.notify(m.Forget(slab=1))
    neighbour.end()
    neighbour.send_all()
    assert ours.fileno() == -1
    neighbour.notify(m.Forget(slab=1))


@pytest.mark.parametrize("said", ["nothing", "what was read", "what was not"])
def test_one_that_has_gone_is_known_to_be_gone(said: str) -> None:
    """Also before who listens to it has noticed, as in a receiver that was frozen meanwhile."""
    ours, theirs = socket.socketpair()
    with ours:
        neighbour = LocalPeer(ours)
        assert not neighbour.is_gone
        if said != "nothing":
            theirs.sendall(b"words\n")
            assert not neighbour.is_gone
        if said == "what was read":
            assert ours.recv(100) == b"words\n"  # the look has taken nothing away
        theirs.close()
        assert neighbour.is_gone
    assert neighbour.is_gone


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_slab_is_back_when_the_last_view_of_it_has_gone_and_not_before(is_taken: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        neighbour = LocalPeer(ours)
        pool = SlabPool(1 << 20, retire=lambda _: None)
        slab = pool.take(100)
        assert neighbour.lend(slab, "run", 3)
        gone: collections.deque[int] = collections.deque()
        views = SlabViews(gone)
        views.add(slab.number, os.dup(slab.descriptor))
        whole = views.payload(slab.number, 100)
        part = whole[10:20]
        part[:] = 255  # what the script writes is no mark
        del whole
        assert not gone
        assert neighbour.poll_marks() == []
        del part
        assert list(gone) == [slab.number]
        (loan,) = neighbour.lent.values()
        if is_taken:
            views.take(slab.number)
            assert not views.is_seen(slab.number)
            assert neighbour.poll_marks() == [(loan, TAKEN)]
            assert views.is_seen(slab.number)
            assert neighbour.poll_marks() == []  # once
        views.give_back(slab.number)
        assert neighbour.poll_marks() == [(loan, RETURNED)]
        assert (loan.slab, loan.run, loan.step) == (slab, "run", 3)
        assert neighbour.poll_marks() == []
        assert neighbour.lent == {}

        assert not neighbour.lend(slab, "run", 4)  # it has the descriptor
        assert neighbour.poll_marks() == []  # the old mark does not count
        assert not views.is_seen(slab.number)
        views.take(slab.number)
        views.give_back(slab.number)
        ((loan, marks),) = neighbour.poll_marks()  # both at once
        assert (loan.step, marks) == (4, TAKEN | RETURNED)
        views.forget(slab.number)
        assert not views.is_seen(slab.number)


def test_no_payload_covers_the_marks() -> None:
    pool = SlabPool(1 << 20, retire=lambda _: None)
    for unit in (1 << 16, 1 << 20, 5 << 20):
        for size in (0, 1, unit - 3, unit - 2, unit - 1, unit, unit + 1):
            assert len(pool.take(size).memory) >= size - min(MARK, SEEN)


def test_who_waits_for_its_words_sleeps_on_while_it_reads() -> None:
    """A wake-up for each batch that a rank hears of would be in the way of who receives."""
    ours, theirs = socket.socketpair()
    threads: list[int] = []

    def listen() -> None:
        threads.append(threading.get_native_id())
        heard = jsonl_socket.LineConnection(ours, polls=True)
        while heard.receive() is not None:
            pass

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    theirs.sendall(b"{}\n")
    wait_until(lambda: not unread(ours), what="the listener")
    before = switches(threads[0])
    for _ in range(200):
        ours.sendall(b"batch")
        assert theirs.recv(100)
    assert switches(threads[0]) - before < 20
    theirs.close()
    listener.join(10)
    ours.close()
    assert not listener.is_alive()


def unread(connection: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    return False


def switches(thread: int) -> int:
    """How often a thread of this process has gone to sleep."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
