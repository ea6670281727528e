"""Run a command in a running host, as nsenter does: in its namespaces, folder and environment.

Run with `python -m` and the ID of one of the host's processes, a folder as the host sees it, and
the command. It is a process of its own, since only one with a single thread can enter namespaces.
It exits with the command's code, as a shell does, and kills the command when the host ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from collections.abc import Sequence

from launcher.client.sessions.local.isolation import namespaces
from launcher.client.sessions.local.isolation.namespaces import Namespace
from launcher.shared import descendants, signal_all

# linux/nsfs.h: the user namespace that owns a namespace.
_NS_GET_USERNS = 0xB701
#: The outer network's user namespace holds the others, so its network comes first. After the
#: mounts, /proc is the host's.
_KINDS = {
    "net": Namespace.NET,
    "ipc": Namespace.IPC,
    "uts": Namespace.UTS,
    "pid": Namespace.PID,
    "mnt": Namespace.MNT,
}
#: As a shell's: the command was found but cannot run; it was not found.
_CANNOT_RUN, _NOT_FOUND = 126, 127


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code, or 128 plus the signal that ended it."""
    host, folder, *command = arguments
    pid = int(host)
    watch = os.pidfd_open(pid)
    environment = _environment_of(pid)
    _enter_namespaces(pid)
    child = os.fork()  # only children are in the process namespace
    if not child:
        _execute(command, folder, environment)
    host_ended = _wait_for_either(child, watch)
    if host_ended:
        signal_all([child, *descendants(child)], signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if host_ended and code == -signal.SIGKILL:
        print(f"{os.path.basename(command[0])}: killed: the host has ended", file=sys.stderr)  # noqa: PTH119
    return code if code >= 0 else 128 - code


def _environment_of(pid: int) -> dict[bytes, bytes]:
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        entries = file.read().split(b"\0")
    pairs = (entry.partition(b"=") for entry in entries if entry)
    environment = {name: value for name, _, value in pairs}
    if os.isatty(0) and "TERM" in os.environ:
        environment[b"TERM"] = os.environb[b"TERM"]
    return environment


def _enter_namespaces(pid: int) -> None:
    """Enter each namespace of a process that is not ours already.

    Each is entered from the user namespace that owns it. In one's own user namespace this needs
    root; a user's own sandboxes have user namespaces, where they may do it.
    """
    current = _identity(os.open("/proc/self/ns/user", os.O_RDONLY))
    own = {kind: _identity(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)) for kind in _KINDS}
    theirs = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in _KINDS}
    user = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    for kind, namespace in _KINDS.items():
        if _identity(theirs[kind]) != own[kind]:
            owner = fcntl.ioctl(theirs[kind], _NS_GET_USERNS)
            current = _join_user(owner, current)
            namespaces.join(theirs[kind], namespace)
    _join_user(user, current)


def _join_user(descriptor: int, current: int) -> int:
    """Enter a user namespace unless it is the current one; return its identity."""
    identity = _identity(descriptor)
    if identity != current:
        namespaces.join(descriptor, Namespace.USER)
    return identity


def _identity(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino


def _execute(command: Sequence[str], folder: str, environment: dict[bytes, bytes]) -> None:
    """Replace this process by the command."""
    code = _CANNOT_RUN
    try:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(folder)
        os.execvpe(command[0], list(command), environment)
    except FileNotFoundError:
        code = _NOT_FOUND
        print(f"error: there is no program {command[0]!r} in the host", file=sys.stderr)
    except OSError as error:
        print(f"error: {command[0]} cannot run: {error.strerror}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait_for_either(child: int, host: int) -> bool:
    """Wait for the command or the host to end; return whether the host has ended.

    The platform kills a host's processes before the commands in it, so that a command that ends
    with its host always ends after it.
    """
    ended, _, _ = select.select([os.pidfd_open(child), host], [], [])
    return host in ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
