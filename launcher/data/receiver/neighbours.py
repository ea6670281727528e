"""Processes of this host that share slabs with the receiver, each on a Unix connection."""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from launcher.data.control import messages as m
from launcher.data.memory.slabs import LENT, MARK, RETURNED, SEEN, Slab

_PEER_CREDENTIALS = struct.Struct("3i")
_DESCRIPTOR = struct.Struct("i")
#: Batches that come within so many seconds of each other are quick: some can be shown together.
QUICK = 0.003
#: Seconds after which a rank is shown something again, be it fewer.
SOON = 0.015
#: A message, or the end of one, and the descriptor that travels with its first byte.
_Piece = tuple[bytes, int | None]


@dataclass(slots=True)
class Loan:
    """A slab that a neighbour has, the batch that is for it, and the mark as it was seen last."""

    slab: Slab
    run: str
    step: int
    mark: int = LENT


@dataclass(eq=False)
class Neighbour:
    """A rank, which looks at slabs, or a local worker, which fills them.

    Everything for it leaves in order, and whoever has something for it never waits: what does not
    fit into the connection is left to a thread, which is not needed, and not woken, as a rule.
    """

    connection: socket.socket
    seen: set[int] = field(default_factory=set)  # slabs whose descriptors it has
    lent: dict[int, Loan] = field(default_factory=dict)
    came: int = 0  # batches for it
    _latest: float = 0.0  # when the latest of them came
    _shown: float = 0.0  # when it was shown something last
    _left: collections.deque[_Piece | None] = field(default_factory=collections.deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_sending: bool = False  # the thread, what it took out of `_left`

    def __post_init__(self) -> None:
        self._changed = threading.Condition(self._lock)

    @property
    def is_gone(self) -> bool:
        """Whether its end of the connection is closed, perhaps unnoticed so far."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def tell(self, message: m.Message) -> None:
        self._put(message.to_line(), None)

    def lend(self, slab: Slab, run: str, step: int) -> bool:
        """Note that it has the slab; True when its descriptor must travel with the message."""
        slab.memory[MARK] = slab.memory[SEEN] = LENT
        self.lent[slab.number] = Loan(slab, run, step)
        new = slab.number not in self.seen
        self.seen.add(slab.number)
        return new

    def marked(self) -> list[tuple[Loan, int]]:
        """The loans with marks that are new since this was asked last; some are over by that."""
        found = []
        # The latest first: a batch that is seen to be taken was taken after those before it.
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

    def comes_quickly(self) -> bool:
        """Note that a batch has come for it; whether it can wait for the next, for its time."""
        now = time.monotonic()
        before, self._latest = self._latest, now
        self.came += 1
        return now - before < QUICK and now - self._shown < SOON

    def show(self, shown: Iterable[tuple[m.Batch | m.Lent, Slab]]) -> None:
        """Send messages about slabs, each new slab's descriptor with the first byte of a piece."""
        self._shown = time.monotonic()
        lines = []
        for message, slab in shown:
            lines.append(message.to_line())
            if message.new:
                self._put(b"".join(lines), slab.descriptor)
                lines.clear()
        if lines:
            self._put(b"".join(lines), None)

    def forget(self, slab: Slab) -> None:
        """The slab is used no more."""
        if slab.number in self.seen:
            self.seen.discard(slab.number)
            self.tell(m.Forget(slab=slab.number))

    def end(self) -> None:
        with self._changed:
            self._left.append(None)
            self._changed.notify()

    def send_all(self) -> None:
        """Send what is left to it, until `end`; for a thread of its own."""
        with contextlib.suppress(OSError):  # it is gone; its listener sees it, too
            while (piece := self._next()) is not None:
                line, descriptor = piece
                while line:
                    line, descriptor = line[self._send(line, descriptor) :], None
        with self._changed:  # nobody sends now
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
                    pass  # it is slow
                except OSError:
                    return  # it is gone
            self._left.append((line, descriptor))
            self._changed.notify()

    def _send(self, line: bytes, descriptor: int | None, flags: int = 0) -> int:
        """How many bytes the connection has taken."""
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
    """The user at the other end of a Unix connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(raw)[1])
