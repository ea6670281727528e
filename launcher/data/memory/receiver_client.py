"""Client of the receiver, used by ranks and local workers: messages and slabs."""

from __future__ import annotations

import array
import collections
import os
import select
import socket
from weakref import WeakSet, finalize

from launcher.data.control import messages as m
from launcher.data.memory.slabs import SlabViews
from launcher.errors import DataServiceUnavailable

_MESSAGE_BYTES = 4096
#: Buffer size for the descriptors that may arrive with one read of the socket.
_RIGHTS_BYTES = socket.CMSG_SPACE(250 * array.array("i").itemsize)
_TRUNCATED = int(socket.MSG_CTRUNC)
_ABOUT_SLABS = (m.Batch, m.SlabLent)


class ReceiverClient:
    """One Unix connection to the receiver. For use by one thread.

    Slabs that are delivered or lent to this process are mapped into `views`. Raises OSError if the
    receiver is not running.
    """

    def __init__(self, receiver: str, views: SlabViews) -> None:
        self._views = views
        self._data = b""  # received, not parsed yet
        self._descriptors: collections.deque[int] = collections.deque()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(None)  # overrides a default timeout set by the script
        # poll keeps its deadline when signals interrupt it; SO_RCVTIMEO would start again.
        self._arrival = select.poll()
        self._arrival.register(self._socket, select.POLLIN)
        try:
            self._socket.connect(f"\0{receiver}")
        except OSError:
            self._socket.close()
            raise
        finalize(self, self._socket.close)
        _open.add(self._socket)

    def send(self, *messages: m.Message) -> None:
        """Send messages; raises OSError if the receiver is gone."""
        self._socket.sendall(m.to_lines(*messages))

    def receive(self, patience: float = 0.0) -> m.Message | m.Batch | None:
        """Return the next message, or None if none arrives within `patience` seconds.

        With 0, wait forever. Raises OSError if the receiver is gone, and DataServiceUnavailable if
        this process has reached its limit of open files.
        """
        message = None
        while message is None:
            if self._data:
                message, self._data = m.cut(self._data)
            if message is None:
                if patience and not self._arrival.poll(1000 * patience):
                    return None
                self._read_more()
        if isinstance(message, _ABOUT_SLABS):
            if message.new and message.slab is not None:
                self._views.add(message.slab, self._descriptors.popleft())
        elif isinstance(message, m.Forget):
            self._views.forget(message.slab)
        return message

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read_more(self) -> None:
        """Read whatever arrives next."""
        data, rights, flags, _ = self._socket.recvmsg(_MESSAGE_BYTES, _RIGHTS_BYTES)
        for _, _, descriptors in rights:
            self._descriptors.extend(array.array("i", descriptors))
        if flags & _TRUNCATED:
            raise DataServiceUnavailable(
                "this process has too many open files for another batch: release batches, or raise "
                "the limit (ulimit -n)"
            )
        if not data:
            raise ConnectionError("the receiver of this host is gone")
        self._data += data


def _close_in_fork() -> None:
    """Close inherited connections in a forked child.

    The receiver takes a process for alive while its connection is open, and a fork would keep it
    open.
    """
    for connection in list(_open):
        connection.close()


_open: WeakSet[socket.socket] = WeakSet()
os.register_at_fork(after_in_child=_close_in_fork)
