"""Frames from workers into slabs: whole ones, and parts that come on several connections."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass

from launcher.data.batches import wire
from launcher.data.memory.slabs import Slab
from launcher.data.receiver.store import Store
from launcher.errors import WireError

_Key = tuple[str, int]  # a worker and its attempt


@dataclass
class _Arrival:
    """A batch that is on its way into a slab. writers: threads that fill it now."""

    slab: Slab
    total: int
    missing: int
    key: _Key | None
    writers: int = 0
    broken: bool = False


class Arrivals:
    """Takes batches in, from one thread for each connection.

    The slab of a batch that will never be whole is given back when a connection ends that carried
    parts of it, or of a later one.
    """

    def __init__(self, store: Store, *, checksums: bool) -> None:
        self._store = store
        self._checksums = checksums
        self._lock = threading.Lock()
        self._in_parts: dict[_Key, _Arrival] = {}

    def receive_all(self, connection: socket.socket) -> None:
        """Receive frames to the end, or to a damaged one; raises WireError and OSError."""
        latest: wire.Header | None = None
        try:
            while (start := _receive_start(connection)) is not None:
                prefix, named = start
                latest = wire.read_header(named)
                if not self._receive(connection, prefix, named, latest):
                    break
        finally:
            if latest is not None and latest.part is not None:
                self._give_up(latest.worker, latest.part.attempt)

    def _receive(
        self,
        connection: socket.socket,
        prefix: wire.Prefix,
        named: bytearray,
        header: wire.Header,
    ) -> bool:
        size = prefix.payload_bytes
        total = header.part.total if header.part else size
        if not self._store.could_hold(header, total):
            return False
        arrival = self._join(header, size)
        if arrival is None:
            return wire.skip(connection, size)
        offset = header.part.offset if header.part else 0
        complete = intact = False
        try:
            with memoryview(arrival.slab.memory)[offset : offset + size] as payload:
                complete = wire.receive_exactly(connection, payload)
                intact = complete and (
                    not self._checksums or wire.is_intact(prefix, named, payload)
                )
        finally:
            self._leave(arrival, header, size if intact else None)
        if complete and not intact:
            self._store.refuse(header, "its checksum differs")
        return intact

    def _join(self, header: wire.Header, size: int) -> _Arrival | None:
        """Where a frame goes; None for a batch that is not wanted (any more)."""
        part = header.part
        if part is None:
            return self._begin(header, size, None)
        if size > part.total - part.offset:
            raise WireError(f"a part of {size} bytes is outside its batch: {part}")
        key = (header.worker, part.attempt)
        with self._lock:
            arrival = self._in_parts.get(key) or self._begin(header, part.total, key)
            if arrival is None:
                return None
            if arrival.total != part.total:
                raise WireError(f"parts of {part.total} and {arrival.total} bytes of one batch")
            self._in_parts[key] = arrival
            arrival.writers += 1
        return arrival

    def _begin(self, header: wire.Header, total: int, key: _Key | None) -> _Arrival | None:
        if not self._store.wants(header):
            return None
        return _Arrival(self._store.take(header.run, total), total, missing=total, key=key)

    def _leave(self, arrival: _Arrival, header: wire.Header, filled: int | None) -> None:
        """A thread has filled its part, or could not (None)."""
        with self._lock:
            arrival.writers -= 1
            arrival.missing -= filled or 0
            arrival.broken |= filled is None
            if arrival.missing > 0 or arrival.broken:
                self._drop_if_broken(arrival)
                return
            if arrival.key is not None:
                del self._in_parts[arrival.key]
        if not self._store.keep(header, arrival.slab, arrival.total):
            self._store.give(arrival.slab)

    def _give_up(self, worker: str, latest: int) -> None:
        """A connection has ended: what its worker has begun is tried anew, by it or by others."""
        with self._lock:
            for arrival in list(self._in_parts.values()):
                if (
                    arrival.key is not None
                    and arrival.key[0] == worker
                    and arrival.key[1] <= latest
                ):
                    arrival.broken = True
                    self._drop_if_broken(arrival)

    def _drop_if_broken(self, arrival: _Arrival) -> None:
        if not arrival.broken or arrival.writers > 0:
            return
        if arrival.key is None or self._in_parts.pop(arrival.key, None) is not None:
            self._store.give(arrival.slab)


def _receive_start(connection: socket.socket) -> tuple[wire.Prefix, bytearray] | None:
    """A frame's prefix and its header; None at the end."""
    start = bytearray(wire.PREFIX_BYTES)
    if not wire.receive_exactly(connection, memoryview(start)):
        return None
    prefix = wire.read_prefix(start)
    named = bytearray(prefix.header_bytes)
    if not wire.receive_exactly(connection, memoryview(named)):
        return None
    return prefix, named
