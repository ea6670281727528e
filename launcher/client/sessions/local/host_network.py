"""The network of a job's hosts: their interface, addresses and ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.client.sessions.local.address_slots import port_base, reserve_slot
from launcher.client.sessions.local.isolation import Isolation, network_isolation


@dataclass(frozen=True, kw_only=True)
class HostNetwork:
    """Network settings that all hosts of one job share.

    interface: the network interface that carries a host's address.
    prefix: the first half of the address.
    port_base: the first of the job's ports where hosts share one network stack. None where each
        host has its own stack; programs then listen on the same ports as on SageMaker.
    """

    interface: str
    prefix: str
    port_base: int | None

    def address(self, number: int) -> str:
        """Return the address of algo-<number>."""
        return f"{self.prefix}.{number // 256}.{number % 256}"


@contextmanager
def reserve_network(isolation: Isolation) -> Iterator[HostNetwork]:
    """Yield the network settings of a job that runs in this process; no other job gets the same.

    Raises PlatformError when this machine has none left.
    """
    if isolation is Isolation.NETWORK:
        network_isolation.enter()
        yield HostNetwork(
            interface=network_isolation.INTERFACE, prefix=network_isolation.PREFIX, port_base=None
        )
        return
    with reserve_slot() as slot:
        yield HostNetwork(interface="lo", prefix=f"127.{slot}", port_base=port_base(slot))
