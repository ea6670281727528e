"""Receive batches from workers into slabs, each in one frame or in several."""

from __future__ import annotations

import select
import socket
import threading
from dataclasses import dataclass

from launcher.data.batches import wire
from launcher.data.memory import Slab
from launcher.data.receiver.batch_buffer import BatchBuffer
from launcher.data.receiver.local_peers import COALESCE_GAP
from launcher.errors import WireError

#: Milliseconds to wait for the next batch while one is held back.
_PATIENCE = COALESCE_GAP * 1000
_Key = tuple[str, int]  # a worker and its attempt


@dataclass
class _Arrival:
    """A batch that arrives in parts.

    writers: number of threads that are filling its slab.
    """

    slab: Slab
    total: int
    missing: int
    key: _Key
    writers: int = 0
    broken: bool = False


class _HeldBatches:
    """Held-back batches of one connection, delivered if nothing follows at once."""

    def __init__(self, buffer: BatchBuffer, connection: socket.socket) -> None:
        self._buffer = buffer
        self._counts: dict[str, int] = {}  # by epoch read
        self._next_frame = select.poll()
        self._next_frame.register(connection, select.POLLIN)

    def arrived(self, run: str) -> None:
        """Record a frame.

        Returns at once if nothing is held back or the next frame is already here.
        """
        self._counts.pop(run, None)
        if count := self._buffer.arrivals_if_held(run):
            self._counts[run] = count
        if self._counts and not self._next_frame.poll(_PATIENCE):
            for each in self._counts.items():
                self._buffer.deliver_if_last(*each)
            self._counts.clear()


class Arrivals:
    """Receives batches; each connection has its own thread.

    If a batch can never be completed, its slab is returned when a connection ends that carried
    parts of it, or of a later batch of the same worker.
    """

    def __init__(self, buffer: BatchBuffer, *, checksums: bool) -> None:
        self._buffer = buffer
        self._checksums = checksums
        self._lock = threading.Lock()
        self._in_parts: dict[_Key, _Arrival] = {}

    def receive_all(self, connection: socket.socket) -> None:
        """Receive frames until the end or a damaged one; raises WireError and OSError."""
        latest: wire.Header | None = None
        start = bytearray(wire.START_BYTES)
        place = memoryview(start)
        held = _HeldBatches(self._buffer, connection)
        try:
            while wire.receive_exactly(connection, place):
                latest = wire.read_start(start)
                if not self._buffer.admit(latest):
                    break
                receive = self._receive_part if latest.part else self._receive_whole
                if not receive(connection, start, latest):
                    break
                held.arrived(latest.run)
        finally:
            self._buffer.deliver_held()
            if latest is not None and latest.part is not None:
                self._give_up(latest.worker, latest.part.attempt)

    def _receive_whole(
        self, connection: socket.socket, start: bytearray, header: wire.Header
    ) -> bool:
        slab = self._buffer.take(header)
        if slab is None:
            return wire.skip(connection, header.payload_bytes)
        intact = kept = False
        try:
            intact = self._fill(connection, start, header, slab)
            kept = intact and self._buffer.store(header, slab)
        finally:
            if not kept:
                self._buffer.release(slab)
        return intact

    def _fill(
        self, connection: socket.socket, start: bytearray, header: wire.Header, slab: Slab
    ) -> bool:
        """Receive a payload into its slab; return False if it ends early or is damaged."""
        first = header.part.offset if header.part else 0
        with slab.memory[first : first + header.payload_bytes] as payload:
            if not wire.receive_exactly(connection, payload):
                return False
            if not self._checksums or wire.is_intact(start, payload):
                return True
        self._buffer.refuse(header, "its checksum differs")
        return False

    # Parts --------------------------------------------------------------------------------

    def _receive_part(
        self, connection: socket.socket, start: bytearray, header: wire.Header
    ) -> bool:
        arrival = self._join(header)
        if arrival is None:
            return wire.skip(connection, header.payload_bytes)
        intact = False
        try:
            intact = self._fill(connection, start, header, arrival.slab)
        finally:
            self._leave(arrival, header, header.payload_bytes if intact else None)
        return intact

    def _join(self, header: wire.Header) -> _Arrival | None:
        """Return the arrival that a part belongs to, or None if its batch is not wanted."""
        part = header.part
        assert part is not None
        if header.payload_bytes > part.total - part.offset:
            raise WireError(f"a part of {header.payload_bytes} bytes is outside its batch: {part}")
        key = (header.worker, part.attempt)
        with self._lock:
            arrival = self._in_parts.get(key) or self._begin(header, key)
            if arrival is None:
                return None
            if arrival.total != part.total:
                raise WireError(f"parts of {part.total} and {arrival.total} bytes of one batch")
            self._in_parts[key] = arrival
            arrival.writers += 1
        return arrival

    def _begin(self, header: wire.Header, key: _Key) -> _Arrival | None:
        slab, total = self._buffer.take(header), header.total_bytes
        return _Arrival(slab, total, missing=total, key=key) if slab else None

    def _leave(self, arrival: _Arrival, header: wire.Header, filled: int | None) -> None:
        """Record that a thread has filled its part, or could not (None)."""
        with self._lock:
            arrival.writers -= 1
            arrival.missing -= filled or 0
            arrival.broken |= filled is None
            if arrival.missing > 0 or arrival.broken:
                self._drop_if_broken(arrival)
                return
            del self._in_parts[arrival.key]
        if not self._buffer.store(header, arrival.slab):
            self._buffer.release(arrival.slab)

    def _give_up(self, worker: str, latest: int) -> None:
        """Mark a worker's unfinished batches as broken after its connection has ended.

        They are sent again, by that worker or by others.
        """
        with self._lock:
            for arrival in list(self._in_parts.values()):
                of_worker, attempt = arrival.key
                if of_worker == worker and attempt <= latest:
                    arrival.broken = True
                    self._drop_if_broken(arrival)

    def _drop_if_broken(self, arrival: _Arrival) -> None:
        if not arrival.broken or arrival.writers > 0:
            return
        if self._in_parts.pop(arrival.key, None) is not None:
            self._buffer.release(arrival.slab)
