"""Child processes of a host: started as trees, signalled as trees, gone as trees."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

#: A host's word to the services that it has started: end now.
CLOSE_SIGNAL = signal.SIGUSR1
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTORS = 65536


def become_subreaper() -> None:
    """Adopt orphaned descendants, as a container's init does, so that none is lost from sight."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def raise_descriptor_limit() -> None:
    """Batches in shared memory take a descriptor each; children inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def wait_for_turns() -> None:
    """Let this process not push another off its processor whenever it wakes up (sched(7)).

    It wakes up for every batch; a training loop that is bound by launching was measured to lose
    several percent by that.
    """
    with contextlib.suppress(OSError):  # a container may not allow it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@contextlib.contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """SIGTERM and SIGINT wait until the block ends; a child started in it never gets them.

    Children inherit the mask, and have it from their first moment on.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Leave SIGTERM and SIGINT to others, without passing that on to children as SIG_IGN would."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    output: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own.

    It shares our stdout and stderr, or has both in the descriptor `output`. Raises OSError when
    there is no such program.
    """
    return subprocess.Popen(
        list(command),
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def descendants(root: int) -> list[int]:
    """Every living process below `root`, also those that moved to another session."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _living_parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def _living_parent(entry: Path) -> int | None:
    try:
        # The fields after the command, which stands in parentheses and may hold anything.
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == "Z" else int(parent)


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to each; those that are gone already are no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_tree(
    alive: Callable[[], Sequence[int]],
    *,
    grace: float,
    spared: Collection[int] = (),
    poll: float = 0.05,
) -> None:
    """SIGTERM to every process that `alive` lists, and SIGKILL to what is left after `grace` s.

    spared: process groups that get no SIGTERM. The list is taken anew each time, for processes that
    start others while they end.
    """
    signal_all([pid for pid in alive() if _group(pid) not in spared], signal.SIGTERM)
    deadline = time.monotonic() + grace
    while alive() and time.monotonic() < deadline:
        time.sleep(poll)
    while remaining := alive():
        signal_all(remaining, signal.SIGKILL)
        time.sleep(poll)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def shell_code(code: int) -> int:
    """An exit status as a shell tells it: 128 and the number of the signal that killed it."""
    return code if code >= 0 else 128 - code


def describe_exit(code: int) -> str:
    """What an exit status means: "exit code 3", or the name of the signal that killed it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"
