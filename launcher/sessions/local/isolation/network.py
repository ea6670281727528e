"""Isolation `network`: a sandbox whose every host has a network stack of its own.

    outer network   a bridge, `hosts`, and on it one end of a cable per host: `algo-1`, ...
    host network    the other end, `eth0`, and a loopback of its own; no way to anywhere else

The job's platform process moves to the outer network before it starts hosts, and the networks are
held by its open descriptors alone: the kernel takes all of them down with the last process that
is in them, however it ends. Nothing is mounted, named or left anywhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from launcher.errors import PlatformError
from launcher.sessions.local.cluster import Host
from launcher.sessions.local.interpreter import module_command, module_environment
from launcher.sessions.local.isolation import namespaces, sandbox
from launcher.sessions.local.isolation.berth import Berth, StartPlan
from launcher.sessions.local.isolation.namespaces import Namespace

INTERFACE = "eth0"
#: Every job has this network to itself, so that all can have the same: 10.0.0.0/16.
PREFIX = "10.0"

_BRIDGE = "hosts"
_OWN_NETWORK = "/proc/self/ns/net"
_TRIAL = "launcher.sessions.local.isolation.trial"
_TRIAL_SECONDS = 30


def enter() -> None:
    """Move this process, for good, to an outer network without hosts yet.

    Root needs no more. Others become root of a user namespace in which they alone exist: their
    files and processes stay theirs, seen from outside. Raises PlatformError where the kernel
    refuses; for a process with one thread.
    """
    try:
        _unshare_network()
        _configure(f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")
    except OSError as error:
        raise PlatformError(f"there can be no network of hosts: {error.strerror}") from error


def plan_start(berth: Berth) -> StartPlan:
    """Put the host's channels in place, its network on the bridge, and say what to run.

    For a process that has entered an outer network.
    """
    plan = sandbox.plan_start(berth, more_walls=[*_own_user(), *_no_name_server(berth)])
    return replace(plan, before=partial(_move_in, _connected_network(berth.host)))


def find_obstacle() -> str | None:
    """Why this isolation does not work on this machine, or None: a host is started to see."""
    if shutil.which("ip") is None:
        return "there is no ip on PATH: on Debian and Ubuntu, apt-get install iproute2"
    if obstacle := sandbox.find_obstacle():
        return obstacle
    try:
        trial = subprocess.run(
            module_command(_TRIAL),
            cwd="/",
            env=module_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return sandbox.complaint_of(trial)


# The outer network -----------------------------------------------------------------------------


def _unshare_network() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        namespaces.unshare(Namespace.NET)
    except PermissionError:
        namespaces.unshare(Namespace.USER | Namespace.NET)
        # user_namespaces(7): the one mapping that needs no privilege, and what it asks for.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _connected_network(host: Host) -> int:
    """A descriptor of a new network for a host, on the bridge."""
    if host.name in (name for _, name in socket.if_nameindex()):
        _configure(f"link delete {host.name}")  # of an earlier attempt
    inside = _new_network()
    _configure(
        f"link add {host.name} type veth peer name {INTERFACE} "
        f"netns /proc/{os.getpid()}/fd/{inside}",
        f"link set {host.name} master {_BRIDGE} up",
    )
    _configure(
        "link set lo up",
        f"address add {host.address}/16 dev {INTERFACE}",
        f"link set {INTERFACE} up",
        network=inside,
    )
    return inside


def _new_network() -> int:
    home = os.open(_OWN_NETWORK, os.O_RDONLY)
    try:
        namespaces.unshare(Namespace.NET)
        inside = os.open(_OWN_NETWORK, os.O_RDONLY)
        namespaces.join(home, Namespace.NET)
    finally:
        os.close(home)
    return inside


def _configure(*commands: str, network: int | None = None) -> None:
    """Let `ip` do commands in this network or another; raises PlatformError with what it says."""
    result = subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=None if network is None else partial(namespaces.join, network, Namespace.NET),
    )
    if result.returncode != 0:
        raise PlatformError(f"ip {commands}: {result.stderr.strip()}")


# A host ----------------------------------------------------------------------------------------


def _move_in(network: int) -> None:
    """The first thing that a host's process does: be in its network, and see it in /sys."""
    namespaces.join(network, Namespace.NET)
    namespaces.unshare(Namespace.MOUNTS)
    namespaces.keep_mounts_here()
    # Where the machine masks parts of its own /sys (a container does), hosts see that one.
    with contextlib.suppress(OSError):
        control_groups = os.open("/sys/fs/cgroup", os.O_PATH)
        namespaces.mount_sys()
        namespaces.bind(control_groups, "/sys/fs/cgroup")


def _own_user() -> Sequence[str]:
    """In the sandbox the caller is who they are, though they are root of the outer network."""
    user, group = (Path(f"/proc/self/{kind}_map").read_text().split()[1] for kind in ("uid", "gid"))
    return () if user == "0" else ("--unshare-user", "--uid", user, "--gid", group)


def _no_name_server(berth: Berth) -> Iterator[str]:
    """Names that are not in /etc/hosts are unknown at once: the machine's server is out of reach.

    Where the table alone is asked, they do not exist; a server that refuses would be out of order
    for the moment only, which torch complains of at every connection. The resolver of programs that
    know no nsswitch.conf asks the host itself, which refuses.
    """
    reason = "# This host reaches the other hosts of its job, and nobody else.\n"
    for place, rule in (("/etc/resolv.conf", ""), ("/etc/nsswitch.conf", "hosts: files\n")):
        theirs = Path(place).resolve()
        if theirs.is_file():
            ours = berth.tree.path / place.strip("/").replace("/", "-")
            ours.write_text(reason + rule)
            yield from ("--ro-bind", str(ours), str(theirs))
