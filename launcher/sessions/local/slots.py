"""Slots of this machine: each running job holds one, and no two jobs share an address or port.

A slot is held by an abstract Unix socket. The kernel frees it with its process, however that
ends, and it is known in the whole network namespace: the same reach as the addresses it guards,
for all users and whatever their temporary folder is.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.errors import PlatformError

#: 127.0.x.y is left alone, as it has localhost.
_SLOTS = range(1, 255)
#: Below 32768, where Linux begins to hand out ports by itself (ip_local_port_range).
_FIRST_PORT = 10_000
_PORTS_PER_SLOT = 64


@contextmanager
def hold_slot() -> Iterator[int]:
    """A slot that no running job of this machine has, for as long as the block runs.

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
        f"all {len(_SLOTS)} job slots of this machine are taken: wait for a job to end, "
        "or stop one with `launcher stop NAME`"
    )


def port_base(slot: int) -> int:
    """The first of the slot's ports."""
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
    """Whether no other program of this machine listens on a port of the slot."""
    return all(_is_free(port_base(slot) + offset) for offset in range(_PORTS_PER_SLOT))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of an earlier job in TIME_WAIT are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
