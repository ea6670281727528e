"""How the hosts of a job reach each other: their interface, addresses and ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.sessions.local.isolation import Isolation, network
from launcher.sessions.local.slots import hold_slot, port_base


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """What all hosts of one job have in common.

    interface: the network interface that has a host's address. prefix: the address's first half.
    port_base: the first of the job's ports where hosts share one network stack; None where each
    has its own, and programs listen on the ports that they have on SageMaker.
    """

    interface: str
    prefix: str
    port_base: int | None

    def address(self, number: int) -> str:
        """The address of algo-<number>."""
        return f"{self.prefix}.{number // 256}.{number % 256}"


@contextmanager
def hold_wiring(isolation: Isolation) -> Iterator[Wiring]:
    """The wiring of a job that is about to run in this process; no other job has the same.

    Raises PlatformError when this machine has none to give.
    """
    if isolation is Isolation.NETWORK:
        network.enter()
        yield Wiring(interface=network.INTERFACE, prefix=network.PREFIX, port_base=None)
        return
    with hold_slot() as slot:
        yield Wiring(interface="lo", prefix=f"127.{slot}", port_base=port_base(slot))
