"""Senders of a worker's batches to one receiver: into its shared memory, or over connections.

On one host a batch is copied once. Elsewhere a large one is striped over several connections: one
TCP flow between EC2 instances carries at most 5 Gbit/s, however fast their network is (Amazon EC2
User Guide, "instance network bandwidth"). Between processes of one machine one flow is best.
"""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import itertools
import socket
from concurrent.futures import ThreadPoolExecutor

from launcher.data.batches import Header, WireFrame
from launcher.data.control import messages as m
from launcher.data.memory import ReceiverClient, SlabViews
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


class SharedMemorySender:
    """Hands frames to the receiver of this host. For use by one thread."""

    def __init__(self, receiver: str) -> None:
        self._receiver = receiver
        self._client: ReceiverClient | None = None

    def send(self, frame: WireFrame) -> None:
        """Hand a frame over if it is wanted; after OSError the next call reconnects."""
        try:
            if self._client is None:
                # Released views are not reported: the receiver is notified when a slab is filled.
                self._views = SlabViews(released=collections.deque(maxlen=0))
                self._client = ReceiverClient(self._receiver, self._views)
            self._hand_over(frame, self._client)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection to the receiver."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _hand_over(self, frame: WireFrame, client: ReceiverClient) -> None:
        header = frame.header
        slab = _request_slab(header, client)
        if slab is None:
            return
        frame.copy_to(self._views.payload(slab, header.payload_bytes))
        client.send(
            m.SlabFilled(
                run=header.run,
                step=header.step,
                worker=header.worker,
                slab=slab,
                size=header.payload_bytes,
                content=header.content_bytes,
            )
        )


def _request_slab(header: Header, client: ReceiverClient) -> int | None:
    """Return the slab for a batch, or None if the batch is no longer wanted."""
    client.send(m.NeedSlab(run=header.run, step=header.step, size=header.payload_bytes))
    while not isinstance(answer := client.receive(), m.SlabLent):
        pass  # a Forget message, handled by the client
    return answer.slab
