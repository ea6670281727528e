"""Connections from a worker to one receiver; large batches are striped over several.

One TCP flow between EC2 instances carries at most 5 Gbit/s, however fast their network is (Amazon
EC2 User Guide, "instance network bandwidth"). Between processes of one machine one flow is best.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import socket
from concurrent.futures import ThreadPoolExecutor

from launcher.data.batches import WireFrame
from launcher.runtime import jsonl_socket

#: Maximum number of flows over which one worker stripes a batch.
MAX_FLOWS = 4
#: Flows that a host's workers together need to one receiver to fill 50 Gbit/s and more.
FLOWS_PER_HOST = 16
#: Minimum number of bytes that justify a flow of their own.
_SHARE = 4 << 20
#: Limit of unsent bytes in the kernel between processes of one machine, so that they are read while
#: still in the caches. Without it, for batches of 5 MB, a receiver was measured to take 3 to 4 %
#: more CPU time and a sender 8 %, at a rate that was 4 % lower.
_UNSENT = 64 << 10


class StripedSender:
    """Sends frames to one receiver. For use by one thread.

    workers: number of workers on this host, each of which has flows of its own.
    """

    def __init__(self, address: tuple[str, int], token: str, *, workers: int) -> None:
        self._address = address
        self._token = token
        self._most = max(1, min(MAX_FLOWS, FLOWS_PER_HOST // workers))
        self._connections: list[socket.socket] = []
        self._is_near = False
        self._senders = ThreadPoolExecutor(MAX_FLOWS)
        self._attempts = itertools.count()

    def send(self, frame: WireFrame) -> None:
        """Send a frame; after an error (DataError, OSError) the next call opens new flows."""
        try:
            if not self._connections:
                self._connect(1)
            parts = self._parts(frame)
            if len(parts) == 1:
                frame.send(self._connections[0])
            else:  # list() waits for all parts
                self._connect(len(parts))
                list(self._senders.map(WireFrame.send, parts, self._connections))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all flows, even while threads are sending on them."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def _parts(self, frame: WireFrame) -> list[WireFrame]:
        count = min(self._most, frame.header.payload_bytes // _SHARE)
        if count < 2 or self._is_near:
            return [frame]
        return frame.split(count, next(self._attempts))

    def _connect(self, count: int) -> None:
        while len(self._connections) < count:
            connection = jsonl_socket.connect(
                self._address, self._token, timeout=10.0, peer="the receiver"
            )
            self._is_near = _is_near(connection)
            if self._is_near:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
            self._connections.append(connection)


def _is_near(connection: socket.socket) -> bool:
    """Return True if both ends are on one machine."""
    here, there = connection.getsockname()[0], connection.getpeername()[0]
    return bool(here == there or ipaddress.ip_address(there).is_loopback)
