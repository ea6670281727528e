"""Linux namespaces and mounts, by the C library: Python has os.unshare and os.setns from 3.12 on.

Moving to another user namespace needs a process with one thread.
"""

from __future__ import annotations

import ctypes
import enum

from launcher.sessions.local import libc

# sys/mount.h
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_PLAIN = 0x2 | 0x4 | 0x8  # no set-user-id bits, no devices, no programs: for kernel data


class Namespace(enum.IntFlag):
    """What a process can have of its own (linux/sched.h); the value names are those in /proc."""

    MOUNTS = 0x00020000
    USER = 0x10000000
    NET = 0x40000000


def unshare(kinds: Namespace) -> None:
    """Move this process to new namespaces; raises OSError (PermissionError: not privileged)."""
    libc.call("unshare", int(kinds))


def join(descriptor: int, kind: Namespace) -> None:
    """Move this process to the namespace of an open /proc/<pid>/ns file."""
    libc.call("setns", descriptor, int(kind))


def keep_mounts_here() -> None:
    """What is mounted from now on in this mount namespace is seen in no other."""
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def mount_sys() -> None:
    """A /sys of the network that this process is in; raises OSError where that is forbidden."""
    _mount("sysfs", "/sys", "sysfs", _MS_PLAIN)


def bind(descriptor: int, target: str) -> None:
    """Show an open folder, and all that is mounted below it, at another place."""
    _mount(f"/proc/self/fd/{descriptor}", target, None, _MS_BIND | _MS_REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = (source and source.encode(), target.encode(), kind and kind.encode())
    libc.call("mount", *words, ctypes.c_ulong(flags), None)
