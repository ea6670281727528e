"""A network stack per host, and the cables between them: cut, mended, slow, and reset.

As isolation `network` of local jobs: all of it is held by this process's descriptors, so that
nothing is left of it, however the process ends.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from launcher.client.sessions import Namespace
from launcher.client.sessions.local.isolation import namespaces, network_isolation

#: How long anything may wait in tbf before it is lost.
_BUFFER = ("latency", "200ms")


@dataclass(frozen=True)
class Cables:
    """The hosts' addresses, and a descriptor of the network of each."""

    addresses: Mapping[str, str]
    networks: Mapping[str, int]

    @classmethod
    def lay(cls, hosts: Iterable[str]) -> Cables:
        """Move this process to a network of its own with these hosts on a bridge.

        Raises PlatformError where the kernel refuses; for a process with one thread.
        """
        network_isolation.enter()
        addresses = {host: f"10.0.0.{number}" for number, host in enumerate(hosts, 1)}
        return cls(addresses, {host: _connect(host, at) for host, at in addresses.items()})

    def enter(self, host: str) -> None:
        """Move this process to a host's network."""
        namespaces.join(self.networks[host], Namespace.NET)

    def cut(self, host: str) -> None:
        """From now on what is sent to and by the host is lost without a word."""
        _run("ip", "link", "set", host, "down")

    def mend(self, host: str) -> None:
        """The cable is as new."""
        _run("ip", "link", "set", host, "up")
        for at in (None, self.networks[host]):
            device = host if at is None else "eth0"
            _run("tc", "qdisc", "del", "dev", device, "root", at=at, check=False)

    def slow(self, host: str, *, megabits: float, burst: str = "32kbit") -> None:
        """The host sends and receives so many megabits per second; burst: may be sent at once."""
        shape = ("tbf", "rate", f"{round(1e6 * megabits)}bit", "burst", burst, *_BUFFER)
        for at in (None, self.networks[host]):
            device = host if at is None else "eth0"
            _run("tc", "qdisc", "replace", "dev", device, "root", *shape, at=at)

    def held_back(self, host: str) -> int:
        """How often something had to wait in the slow cable since it is slow."""
        return sum(
            int(re.findall(r"overlimits (\d+)", said)[0])
            for said in (
                _run("tc", "-s", "qdisc", "show", "dev", host, "root"),
                _run("tc", "-s", "qdisc", "show", "dev", "eth0", "root", at=self.networks[host]),
            )
        )

    def reset(self, host: str) -> int:
        """Break every TCP connection of the host, with a reset to both sides; how many there were.

        Listening sockets stay.
        """
        said = _run("ss", "-HtK", "state", "established", at=self.networks[host])
        return len(said.splitlines())


def _connect(host: str, address: str) -> int:
    """A descriptor of a new network that is on the bridge."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    namespaces.unshare(Namespace.NET)
    inside = os.open("/proc/self/ns/net", os.O_RDONLY)
    namespaces.join(home, Namespace.NET)
    os.close(home)
    peer = f"/proc/{os.getpid()}/fd/{inside}"
    _run("ip", "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", peer)
    _run("ip", "link", "set", host, "master", "hosts", "up")
    _run("ip", "link", "set", "lo", "up", at=inside)
    _run("ip", "address", "add", f"{address}/16", "dev", "eth0", at=inside)
    _run("ip", "link", "set", "eth0", "up", at=inside)
    return inside


def _run(*command: str, at: int | None = None, check: bool = True) -> str:
    join = None if at is None else partial(namespaces.join, at, Namespace.NET)
    result = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=join)
    if check and result.returncode != 0:
        raise OSError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout
