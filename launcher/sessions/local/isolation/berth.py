"""What a host needs in order to start, whichever isolation starts it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.sessions.local.channels import Supply
from launcher.sessions.local.cluster import Host
from launcher.sessions.local.opt_ml import HostTree


@dataclass(frozen=True, kw_only=True)
class Berth:
    """One host before its start.

    command: the container's entry point and arguments; environment: as in its container.
    scratch: its temporary folder, short since Unix sockets in it have at most 108 characters.
    """

    host: Host
    hosts: Sequence[Host]
    tree: HostTree
    scratch: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    supplies: Sequence[Supply]


@dataclass(frozen=True, kw_only=True)
class StartPlan:
    """A process of this machine that is a host.

    before: what the new process does first, before it becomes the command.
    wrappers: how many processes at the top of its tree are not the host's own.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    before: Callable[[], None] | None = None
    wrappers: int = 0


def with_running_python(command: Sequence[str]) -> list[str]:
    """The command, its python being the one that runs us: a local job has no image."""
    first, *rest = command
    return [sys.executable if first in ("python", "python3") else first, *rest]


def place_copies(folder: Path, files: Mapping[str, Path]) -> None:
    """A folder of the single files themselves, by their names in the channel.

    They are hard links, which take no room; a file of another file system is copied.
    """
    for name, path in files.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path.resolve(), copy)
        except OSError:  # another file system, or a file that is not ours to link
            shutil.copyfile(path, copy)


def place_links(folder: Path, files: Mapping[str, Path]) -> None:
    """A folder of links to single files, by their names in the channel."""
    for name, path in files.items():
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
