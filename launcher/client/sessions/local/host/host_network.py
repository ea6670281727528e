"""The network of a job's hosts: their interface, addresses and ports."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.client.sessions.local.container.job_containers import (
    CONTAINER_INTERFACE,
    hold_network,
    job_containers,
)
from launcher.client.sessions.local.isolation import Isolation, network_isolation
from launcher.client.sessions.local.job.job_folder import JobFolder, Settings
from launcher.errors import PlatformError


@dataclass(frozen=True, kw_only=True)
class HostNetwork:
    """Network settings that all hosts of one job share.

    interface: the network interface that carries a host's address.
    prefix: the first half of the address; None where hosts are reached by their names alone.
    port_base: the first of the job's ports where hosts share one network stack. None where each
        host has its own stack; programs then listen on the same ports as on SageMaker.
    problem: why containers have no network stack each, if that is so.
    """

    interface: str
    prefix: str | None
    port_base: int | None
    problem: str | None = None

    def address(self, number: int) -> str:
        """Return the address of algo-<number>, or its name."""
        if self.prefix is None:
            return f"algo-{number}"
        return f"{self.prefix}.{number // 256}.{number % 256}"


@contextmanager
def reserve_network(folder: JobFolder, settings: Settings) -> Iterator[HostNetwork]:
    """Yield the network settings of a job that runs in this process; no other job gets the same.

    Raises PlatformError when this machine has none left.
    """
    if settings.container is not None:
        with job_containers(folder, settings.container) as problem:
            if problem is not None:
                yield share_network(folder, settings, problem)
                return
            yield HostNetwork(interface=CONTAINER_INTERFACE, prefix=None, port_base=None)
        return
    if settings.isolation is Isolation.NETWORK:
        network_isolation.enter()
        yield HostNetwork(
            interface=network_isolation.INTERFACE, prefix=network_isolation.PREFIX, port_base=None
        )
        return
    with reserve_slot() as slot:
        yield HostNetwork(interface="lo", prefix=f"127.{slot}", port_base=port_base(slot))


def share_network(folder: JobFolder, settings: Settings, problem: str) -> HostNetwork:
    """Make one network stack for all containers of a job, which reach nothing else.

    problem: why they have none each. Raises PlatformError when the engine makes none either.
    """
    assert settings.container is not None
    hold_network(folder, settings.container)
    slot = _SLOTS[0]  # of a machine that no other job has
    return HostNetwork(
        interface="lo", prefix=f"127.{slot}", port_base=port_base(slot), problem=problem
    )


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
