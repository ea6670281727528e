"""Launch specification of a host, whichever isolation is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from launcher.client.sessions.local.container.job_containers import HostContainer
from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.host.host_python import HostPython, host_python
from launcher.client.sessions.local.host.overlay import Overlay
from launcher.client.sessions.local.job.job_folder import ContainerSettings
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.client.sessions.local.storage.input_channels import ChannelMount


@dataclass(frozen=True, kw_only=True)
class HostLaunchSpec:
    """Launch specification of one host.

    command: the container's entry point and arguments.
    environment: the variables that its container would have.
    scratch: its temporary folder, whose path must be short: a Unix socket's path is limited to 108
        characters.
    interpreter: the Python in which it runs.
    overlay: the packages of the host's requirements, if it has some.
    container: how it runs in a container, for that isolation.
    """

    host: LocalHost
    hosts: Sequence[LocalHost]
    tree: HostFolder
    scratch: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    channel_mounts: Sequence[ChannelMount]
    interpreter: HostPython = field(default_factory=partial(host_python, None))
    overlay: Overlay | None = None
    container: ContainerSettings | None = None

    @property
    def python(self) -> str:
        """The interpreter that "python" and "python3" mean."""
        return self.interpreter.executable if self.overlay is None else str(self.overlay.python)


@dataclass(frozen=True, kw_only=True)
class StartPlan:
    """The process of this machine that will run as a host.

    before: called in the new process before it executes the command.
    wrappers: the number of processes at the top of its tree that are not the host's own.
    container: the container whose run this process waits for, if the host is one.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    before: Callable[[], None] | None = None
    wrappers: int = 0
    container: HostContainer | None = None


def write_hosts_file(launch_spec: HostLaunchSpec) -> Path:
    """Write the host's /etc/hosts, with the names and addresses of all hosts; return its path."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{host.address} {host.name}" for host in launch_spec.hosts]
    file = launch_spec.tree.path / "etc-hosts"
    file.write_text("\n".join(lines) + "\n")
    return file


def with_local_python(command: Sequence[str], python: str) -> list[str]:
    """Replace the command's python by an interpreter of this machine: a local job has no image."""
    first, *rest = command
    return [python if first in ("python", "python3") else first, *rest]


def hard_link_channel_files(launch_spec: HostLaunchSpec) -> None:
    """Create hard links to channels' single files; targets of symbolic links would be hidden."""
    for mount in launch_spec.channel_mounts:
        target = launch_spec.tree.ml.channels / mount.channel.name
        target.mkdir()
        hard_link_files(target, mount.files)


def read_only_channels(launch_spec: HostLaunchSpec) -> Iterator[tuple[str, Path]]:
    """Yield the name and the folder of each channel that the host may not change.

    Those that were fetched for this job are the host's own; all others are the user's data.
    """
    for mount in launch_spec.channel_mounts:
        if not mount.is_writable:
            links = launch_spec.tree.ml.channels / mount.channel.name
            folder = links if mount.folder is None else mount.folder.resolve()
            yield mount.channel.name, folder


def hard_link_files(folder: Path, files: Mapping[str, Path]) -> None:
    """Fill a folder with single files, by their names in the channel.

    The files are hard links, which take no space; a file of another file system is copied.
    """
    for name, path in files.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path.resolve(), copy)
        except OSError:  # another file system, or a file that we may not link
            shutil.copyfile(path, copy)


def symlink_files(folder: Path, files: Mapping[str, Path]) -> None:
    """Fill a folder with symbolic links to single files, by their names in the channel."""
    for name, path in files.items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
