"""Processes of this host that share slabs with the receiver, each on a Unix connection."""

from __future__ import annotations

import queue
import socket
import struct
from dataclasses import dataclass, field

from launcher.data import messages as m
from launcher.data.slabs import Slab
from launcher.runtime import lines

_PEER_CREDENTIALS = struct.Struct("3i")


@dataclass(eq=False)
class Neighbour:
    """A rank, which looks at slabs, or a local worker, which fills them.

    Everything for it leaves through one thread, in order: whoever has something for it never waits.
    """

    connection: socket.socket
    seen: set[int] = field(default_factory=set)  # slabs whose descriptors it has
    lent: dict[int, Slab] = field(default_factory=dict)
    _outbox: queue.SimpleQueue[tuple[m.Message, int | None] | None] = field(
        default_factory=queue.SimpleQueue
    )

    def tell(self, message: m.Message) -> None:
        self._outbox.put((message, None))

    def lend(self, slab: Slab) -> bool:
        """Note that it has the slab; True when its descriptor must travel with the message."""
        self.lent[slab.number] = slab
        new = slab.number not in self.seen
        self.seen.add(slab.number)
        return new

    def show(self, message: m.Batch | m.Lent, slab: Slab) -> None:
        """Send a message about a slab; a new slab's descriptor travels with its first byte."""
        self._outbox.put((message, slab.descriptor if message.new else None))

    def forget(self, slab: Slab) -> None:
        """The slab is used no more."""
        if slab.number in self.seen:
            self.seen.discard(slab.number)
            self.tell(m.Forget(slab=slab.number))

    def end(self) -> None:
        self._outbox.put(None)

    def send_all(self) -> None:
        """Send what is told, until `end`; for a thread of its own."""
        while (entry := self._outbox.get()) is not None:
            message, descriptor = entry
            line = lines.encode(message.encode())
            try:
                if descriptor is not None:
                    sent = socket.send_fds(self.connection, [line], [descriptor])
                    line = line[sent:]
                self.connection.sendall(line)
            except OSError:
                break  # it is gone; its listener sees it, too
        self.connection.close()


def user_of(connection: socket.socket) -> int:
    """The user at the other end of a Unix connection."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(raw)[1])
