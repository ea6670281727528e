"""Slots of this machine: each running job holds one, so that no two jobs share an address or port.

A slot is held by an abstract Unix socket. The kernel frees it when its process ends, however that
happens. It is visible in the whole network namespace, which is also the scope of the addresses it
guards, for all users and whatever their temporary folder is.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.errors import PlatformError

#: 127.0.x.y is not used, because it contains localhost.
_SLOTS = range(1, 255)
#: All slots end below 32768, where Linux's ephemeral ports begin (ip_local_port_range).
_FIRST_PORT = 10_000
_PORTS_PER_SLOT = 64


@contextmanager
def reserve_slot() -> Iterator[int]:
    """Yield a slot that no other running job of this machine has, for the duration of the block.

    Raises PlatformError when all of them are taken.
    """
    for slot in _SLOTS:
        holder = _claim(slot)
        if holder is None:
            continue
        with holder:
            if _ports_are_free(slot):
                yield slot
                return
    raise PlatformError(
        f"all {len(_SLOTS)} job slots of this machine are in use: wait for a job to end, "
        "or stop one with `launcher stop NAME`"
    )


def port_base(slot: int) -> int:
    """Return the first port of a slot."""
    return _FIRST_PORT + slot * _PORTS_PER_SLOT


def _claim(slot: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0launcher-slot-{slot}")
    except OSError as error:
        holder.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return holder


def _ports_are_free(slot: int) -> bool:
    """Return whether no other program of this machine listens on a port of the slot."""
    return all(_is_free(port_base(slot) + offset) for offset in range(_PORTS_PER_SLOT))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that an earlier job's connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
