"""Processes of this host that share slabs with the receiver, each on a Unix connection."""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field

from launcher.data.control import messages as m
from launcher.data.memory.slabs import Slab

_PEER_CREDENTIALS = struct.Struct("3i")
_DESCRIPTOR = struct.Struct("i")


@dataclass(frozen=True)
class _Entry:
    """A message, or the end of one. descriptor: travels with its first byte."""

    line: bytes
    descriptor: int | None

    def send(self, connection: socket.socket, flags: int = 0) -> _Entry | None:
        """Send what the connection takes; returns the rest."""
        attached = []
        if self.descriptor is not None:
            rights = _DESCRIPTOR.pack(self.descriptor)
            attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        rest = self.line[connection.sendmsg([self.line], attached, flags) :]
        return _Entry(rest, None) if rest else None


@dataclass(eq=False)
class Neighbour:
    """A rank, which looks at slabs, or a local worker, which fills them.

    Everything for it leaves in order, and whoever has something for it never waits: what does not
    fit into the connection is left to a thread, which is not needed, and not woken, as a rule.
    """

    connection: socket.socket
    seen: set[int] = field(default_factory=set)  # slabs whose descriptors it has
    lent: dict[int, Slab] = field(default_factory=dict)
    _left: collections.deque[_Entry | None] = field(default_factory=collections.deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_sending: bool = False  # the thread, what it took out of `_left`

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
        self._put(_Entry(message.to_line(), None))

    def lend(self, slab: Slab) -> bool:
        """Note that it has the slab; True when its descriptor must travel with the message."""
        slab.lend()
        self.lent[slab.number] = slab
        new = slab.number not in self.seen
        self.seen.add(slab.number)
        return new

    def returned(self) -> list[Slab]:
        """The slabs that it has given back since this was asked last."""
        marked = [slab for slab in self.lent.values() if slab.is_returned]
        for slab in marked:
            del self.lent[slab.number]
        return marked

    def show(self, message: m.Batch | m.Lent, slab: Slab) -> None:
        """Send a message about a slab; a new slab's descriptor travels with its first byte."""
        self._put(_Entry(message.to_line(), slab.descriptor if message.new else None))

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
            while (entry := self._take()) is not None:
                rest: _Entry | None = entry
                while rest is not None:
                    rest = rest.send(self.connection)
        with self._changed:  # nobody sends now
            self.connection.close()

    def _put(self, entry: _Entry) -> None:
        with self._changed:
            rest: _Entry | None = entry
            if not self._left and not self._is_sending:
                try:
                    rest = entry.send(self.connection, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    pass  # it is slow
                except OSError:
                    return  # it is gone
            if rest is not None:
                self._left.append(rest)
                self._changed.notify()

    def _take(self) -> _Entry | None:
        with self._changed:
            self._is_sending = False
            self._changed.wait_for(lambda: self._left)
            self._is_sending = True
            return self._left.popleft()


def user_of(connection: socket.socket) -> int:
    """The user at the other end of a Unix connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(raw)[1])
