"""Local peers: processes of this host that share slabs with the receiver over Unix connections.

Batches that arrive quickly are coalesced, since each message wakes the rank. The number is fixed,
because choosing it by measurement saved no processor time (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import collections
import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from launcher.data.control import messages as m
from launcher.data.memory import LENT, MARK, RETURNED, SEEN, Slab

_PEER_CREDENTIALS = struct.Struct("3i")
_DESCRIPTOR = struct.Struct("i")
#: Batches that arrive within this many seconds of each other are quick and can be coalesced.
COALESCE_GAP = 0.003
#: Seconds after which a rank gets its batches, even if they are few.
COALESCE_TIMEOUT = 0.015
#: Bytes that are coalesced, and the bounds of the number of batches. Fewer batches wake the rank
#: more often; more of them use more slabs, which leave the caches before they are filled again.
#: Four slabs of 5 MiB took the least processor time, on two machines (benchmarks/RESULTS.md).
COALESCED_BYTES = 20 << 20
MIN_COALESCED, MAX_COALESCED = 2, 12
#: A message or the rest of one, and the descriptor that travels with its first byte.
_Piece = tuple[bytes, int | None]


def coalesced_batches(size: int) -> int:
    """Return how many quick batches of a size in bytes are delivered in one message."""
    return min(MAX_COALESCED, max(MIN_COALESCED, COALESCED_BYTES // size))


@dataclass(slots=True)
class SlabLoan:
    """A slab lent to a local peer, the batch it is for, and the mark as last seen."""

    slab: Slab
    run: str
    step: int
    mark: int = LENT


@dataclass(eq=False)
class LocalPeer:
    """A local peer: a rank, which reads slabs, or a local worker, which fills them.

    Messages to it are sent in order, and senders never block. What does not fit into the connection
    is left to a thread, which is usually neither needed nor woken.
    """

    connection: socket.socket
    seen: set[int] = field(default_factory=set)  # numbers of the slabs whose descriptors it has
    lent: dict[int, SlabLoan] = field(default_factory=dict)
    arrived: int = 0  # number of batches that arrived for it
    _arrived_at: float = 0.0  # when the latest of them arrived
    _delivered_at: float = 0.0  # when a message about slabs was last sent to it
    _left: collections.deque[_Piece | None] = field(default_factory=collections.deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_sending: bool = False  # the thread is sending a piece from `_left`

    def __post_init__(self) -> None:
        self._changed = threading.Condition(self._lock)

    @property
    def is_gone(self) -> bool:
        """True if the peer has closed its end of the connection, even with messages unread."""
        poll = select.poll()
        try:
            poll.register(self.connection, 0)  # what the kernel always reports: POLLHUP, POLLERR
        except ValueError:  # closed on this side, too
            return True
        return bool(poll.poll(0))

    def notify(self, message: m.Message) -> None:
        """Send a message to the peer."""
        self._put(message.to_line(), None)

    def lend(self, slab: Slab, run: str, step: int) -> bool:
        """Record that the peer has the slab; return True if its descriptor must be sent too."""
        slab.memory[MARK] = slab.memory[SEEN] = LENT
        self.lent[slab.number] = SlabLoan(slab, run, step)
        new = slab.number not in self.seen
        self.seen.add(slab.number)
        return new

    def poll_marks(self) -> list[tuple[SlabLoan, int]]:
        """Return the loans whose marks have changed since the last call, with the new bits.

        Loans whose mark says that the slab was returned end here.
        """
        found = []
        # Latest first: a batch seen as consumed was consumed after those before it.
        for loan in reversed(self.lent.values()):
            memory = loan.slab.memory
            mark = memory[MARK]
            if mark != loan.mark:
                found.append((loan, mark & ~loan.mark))
                loan.mark = memory[SEEN] = mark
        for loan, new in found:
            if new & RETURNED:
                del self.lent[loan.slab.number]
        return found

    def record_arrival(self) -> bool:
        """Record that a batch has arrived for the peer; return True if it arrived quickly.

        A quick batch follows the one before closely, and the latest delivery was not long ago.
        """
        now = time.monotonic()
        before, self._arrived_at = self._arrived_at, now
        self.arrived += 1
        return now - before < COALESCE_GAP and now - self._delivered_at < COALESCE_TIMEOUT

    def deliver(self, items: Iterable[tuple[m.Batch | m.SlabLent, Slab]]) -> None:
        """Send messages about slabs.

        The descriptor of each new slab travels with the first byte of a piece.
        """
        self._delivered_at = time.monotonic()
        lines = []
        for message, slab in items:
            lines.append(message.to_line())
            if message.new:
                self._put(b"".join(lines), slab.descriptor)
                lines.clear()
        if lines:
            self._put(b"".join(lines), None)

    def forget(self, slab: Slab) -> None:
        """Notify the peer that the slab will not be used again."""
        if slab.number in self.seen:
            self.seen.discard(slab.number)
            self.notify(m.Forget(slab=slab.number))

    def end(self) -> None:
        """End the sending thread once everything before is sent."""
        with self._changed:
            self._left.append(None)
            self._changed.notify()

    def send_all(self) -> None:
        """Send what `_put` left over, until `end`; runs in its own thread."""
        with contextlib.suppress(OSError):  # the peer is gone; the listening thread notices too
            while (piece := self._next()) is not None:
                line, descriptor = piece
                while line:
                    line, descriptor = line[self._send(line, descriptor) :], None
        with self._changed:  # no thread is sending now
            self.connection.close()

    def _put(self, line: bytes, descriptor: int | None) -> None:
        with self._lock:
            if not self._left and not self._is_sending:
                try:
                    sent = self._send(line, descriptor, socket.MSG_DONTWAIT)
                    if sent == len(line):
                        return
                    line, descriptor = line[sent:], None
                except BlockingIOError:
                    pass  # the peer is slow
                except OSError:
                    return  # the peer is gone
            self._left.append((line, descriptor))
            self._changed.notify()

    def _send(self, line: bytes, descriptor: int | None, flags: int = 0) -> int:
        """Send what the connection accepts; return the number of bytes sent."""
        if descriptor is None:
            return self.connection.send(line, flags)
        rights = _DESCRIPTOR.pack(descriptor)
        return self.connection.sendmsg(
            [line], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], flags
        )

    def _next(self) -> _Piece | None:
        with self._changed:
            self._is_sending = False
            self._changed.wait_for(lambda: self._left)
            self._is_sending = True
            return self._left.popleft()


def user_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end of a Unix connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(raw)[1])
