"""Isolation `network`: a sandbox in which every host has its own network stack.

    outer network   a bridge, `hosts`, and one end of a veth pair per host: `algo-1`, ...
    host network    the other end, `eth0`, and its own loopback; no route to anywhere else

The job's platform process moves to the outer network before it starts hosts. Only its open
descriptors hold the networks: the kernel removes all of them with the last process in them,
however it ends. Nothing is mounted, named or left anywhere.
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

from launcher.client.sessions.local.host.module_command import module_command, module_environment
from launcher.client.sessions.local.isolation import namespaces, sandbox_isolation
from launcher.client.sessions.local.isolation.host_launch_spec import HostLaunchSpec, StartPlan
from launcher.client.sessions.local.isolation.namespaces import Namespace
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.errors import PlatformError

INTERFACE = "eth0"
#: First half of the addresses, 10.0.0.0/16. Networks are isolated, so all jobs can use the same.
PREFIX = "10.0"

_BRIDGE = "hosts"
_OWN_NETWORK = "/proc/self/ns/net"
_TRIAL = "launcher.client.sessions.local.isolation.network_trial"
_TRIAL_SECONDS = 30


def enter() -> None:
    """Move this process permanently to a new outer network without hosts.

    Root can do this directly. Other users become root of a new user namespace that contains only
    them; from outside, their files and processes still belong to them. Raises PlatformError where
    the kernel refuses. Requires a process with one thread.
    """
    try:
        _unshare_network()
        _configure(f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")
    except OSError as error:
        raise PlatformError(f"cannot create the hosts' network: {error.strerror}") from error


def plan_start(launch_spec: HostLaunchSpec) -> StartPlan:
    """Put the host's channels in place, connect its network to the bridge, and return what to run.

    Requires a process that has entered an outer network.
    """
    plan = sandbox_isolation.plan_start(
        launch_spec, more_options=[*_own_user(), *_no_name_server(launch_spec)]
    )
    return replace(plan, before=partial(_enter_network, _connected_network(launch_spec.host)))


def find_obstacle() -> str | None:
    """Start a trial host; return why this isolation does not work on this machine, or None."""
    no_ip = None
    if shutil.which("ip") is None:
        no_ip = "ip is not on PATH: on Debian and Ubuntu, apt-get install iproute2"
    if found := [each for each in (no_ip, sandbox_isolation.find_obstacle()) if each]:
        return "; ".join(found)
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
    return sandbox_isolation.trial_error(trial)


# The outer network -----------------------------------------------------------------------------


def _unshare_network() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        namespaces.unshare(Namespace.NET)
    except PermissionError:
        namespaces.unshare(Namespace.USER | Namespace.NET)
        # user_namespaces(7): the only mapping that needs no privilege, and its precondition.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _connected_network(host: LocalHost) -> int:
    """Return a descriptor of a new network for a host, connected to the bridge."""
    if host.name in (name for _, name in socket.if_nameindex()):
        _configure(f"link delete {host.name}")  # left by an earlier attempt
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
    """Run `ip` commands in this network or another; raise PlatformError with its error output."""
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


def _enter_network(network: int) -> None:
    """Enter the host's network and show it in /sys; runs first in a host's process."""
    namespaces.join(network, Namespace.NET)
    namespaces.unshare(Namespace.MNT)
    namespaces.make_mounts_private()
    # Where parts of the machine's /sys are masked (in a container), hosts see the machine's /sys.
    with contextlib.suppress(OSError):
        control_groups = os.open("/sys/fs/cgroup", os.O_PATH)
        namespaces.mount_sys()
        namespaces.bind(control_groups, "/sys/fs/cgroup")


def _own_user() -> Sequence[str]:
    """Return the bwrap options that restore the caller's user, who is root in the outer network."""
    user, group = (Path(f"/proc/self/{kind}_map").read_text().split()[1] for kind in ("uid", "gid"))
    return () if user == "0" else ("--unshare-user", "--uid", user, "--gid", group)


def _no_name_server(launch_spec: HostLaunchSpec) -> Iterator[str]:
    """Yield bwrap options that make names outside /etc/hosts fail at once; no server is reachable.

    With /etc/hosts as the only source, such names do not exist. A server that refuses would be a
    temporary failure, which torch reports at every connection. The resolver of programs that do not
    read nsswitch.conf asks the host itself, which refuses.
    """
    reason = "# This host reaches the other hosts of its job, and no other address.\n"
    for path, rule in (("/etc/resolv.conf", ""), ("/etc/nsswitch.conf", "hosts: files\n")):
        theirs = Path(path).resolve()
        if theirs.is_file():
            ours = launch_spec.tree.path / path.strip("/").replace("/", "-")
            ours.write_text(reason + rule)
            yield from ("--ro-bind", str(ours), str(theirs))
