"""Linux namespaces and mounts, through the C library: os.unshare and os.setns need Python 3.12.

Moving to another user namespace requires a process with one thread.
"""

from __future__ import annotations

import ctypes
import enum

from launcher.client.sessions.local.host.process_tree import call_libc

# sys/mount.h
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_PLAIN = 0x2 | 0x4 | 0x8  # no set-user-id bits, no devices, no programs: for kernel data


class Namespace(enum.IntFlag):
    """Kinds of namespaces (linux/sched.h); the names are those in /proc/PID/ns, in capitals."""

    MNT = 0x00020000
    UTS = 0x04000000
    IPC = 0x08000000
    PID = 0x20000000
    USER = 0x10000000
    NET = 0x40000000


def unshare(kinds: Namespace) -> None:
    """Move this process to new namespaces; raise OSError (PermissionError: not privileged)."""
    call_libc("unshare", int(kinds))


def join(descriptor: int, kind: Namespace) -> None:
    """Move this process to the namespace of an open /proc/<pid>/ns file."""
    call_libc("setns", descriptor, int(kind))


def make_mounts_private() -> None:
    """Hide later mounts in this mount namespace from all other namespaces."""
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def mount_sys() -> None:
    """Mount a /sys that shows this process's network; raise OSError where that is forbidden."""
    _mount("sysfs", "/sys", "sysfs", _MS_PLAIN)


def bind(descriptor: int, target: str) -> None:
    """Mount an open folder, and all that is mounted below it, at another path."""
    _mount(f"/proc/self/fd/{descriptor}", target, None, _MS_BIND | _MS_REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = (source and source.encode(), target.encode(), kind and kind.encode())
    call_libc("mount", *words, ctypes.c_ulong(flags), None)
