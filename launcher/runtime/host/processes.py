"""Child processes of a host, started, signalled and ended as process trees.

The kernel sends SIGKILL when memory runs out, and others as well: `sigkill_words` has the evidence.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from launcher.shared import signal_all, zombies_of

#: Sent by a host to its services to end them.
CLOSE_SIGNAL = signal.SIGUSR1
_PR_SET_CHILD_SUBREAPER = 36
_DESCRIPTORS = 65536
_POLL_SECONDS = 0.05


def become_init() -> None:
    """Adopt orphaned descendants, as a container's init does, and wait for their end.

    Otherwise none of them would be found again, and each that ends would stay a zombie, which
    programs such as `ray stop` take for alive. Call it in the main thread.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, lambda *_: _CHILDREN.wait_for_orphans())


class _Children:
    """The children that this process has started itself, whose exit codes others wait for."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []
        self._is_busy = threading.Semaphore()
        self._is_due = False

    def start(self, create: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a child; one that ends at once is not taken for an orphan."""
        with self._is_busy:
            self._started = [each for each in self._started if each.returncode is None]
            self._started.append(child := create())
        if self._is_due:
            self.wait_for_orphans()
        return child

    def wait_for_orphans(self) -> None:
        """Wait for each adopted process that has ended: those of other sessions, not our own."""
        self._is_due = True
        while self._is_due and self._is_busy.acquire(blocking=False):
            self._is_due = False  # another signal may come at any time from here on
            try:
                self._wait()
            finally:
                self._is_busy.release()

    def _wait(self) -> None:
        own = {each.pid for each in self._started if each.returncode is None}
        for pid in set(zombies_of(os.getpid())) - own:
            with contextlib.suppress(OSError):  # it has been waited for
                if os.getsid(pid) != os.getsid(0):
                    os.waitpid(pid, os.WNOHANG)


_CHILDREN = _Children()


def raise_descriptor_limit() -> None:
    """Raise the descriptor limit for this process and its children: a shared batch takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def use_batch_scheduling() -> None:
    """Schedule this process so that it does not preempt others on wake-up (SCHED_BATCH, sched(7)).

    This process wakes up for every batch, which cost a launch-bound training loop several percent.
    """
    with contextlib.suppress(OSError):  # a container may not allow it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@contextlib.contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Block SIGTERM and SIGINT until the block ends; a child started in it never gets them.

    Children inherit the mask from their first moment on.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_stop_signals() -> None:
    """Ignore SIGTERM and SIGINT; unlike SIG_IGN, programs that are started do not inherit it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def handle_signals_here(handlers: Mapping[int, Callable[..., object]]) -> None:
    """Handle signals in this process, which runs a user's code, and in none that the code starts.

    A fork gets the handlers of before, unless the code has set its own; the C library lets a new
    program have the default ones. Blocked signals are unblocked, since both inherit the mask.
    """
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    masks: dict[int, set[int]] = {}  # of threads that fork now

    def block() -> None:
        masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(threading.get_ident()))

    def restore() -> None:
        for number, handler in handlers.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, before[number] or signal.SIG_DFL)
        unblock()

    # Python forgets a signal that a fork gets before this point; a blocked one is kept for it.
    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    output: int,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, with stdout and stderr in the descriptor `output`.

    Raises OSError when there is no such program.
    """
    return _CHILDREN.start(
        lambda: subprocess.Popen(
            list(command),
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    )


def end_tree(
    alive: Callable[[], Sequence[int]],
    *,
    grace: float,
    exempt: Collection[int] = (),
) -> None:
    """Send SIGTERM to every process that `alive` lists, and SIGKILL to the rest after `grace` s.

    exempt: process groups that get no SIGTERM. The list is read anew each time, since processes may
        start others while they end.
    """
    signal_all(outside_groups(alive(), exempt), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while alive() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    while remaining := alive():
        signal_all(remaining, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def outside_groups(pids: Iterable[int], groups: Collection[int]) -> list[int]:
    """Return the processes that are in none of these process groups."""
    return [pid for pid in pids if _group(pid) not in groups]


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def shell_code(code: int) -> int:
    """Convert an exit status to a shell's exit code: 128 plus the number of a killing signal."""
    return code if code >= 0 else 128 - code


def describe_exit(code: int) -> str:
    """Describe an exit status: "exit code 3", or the name of the signal that killed the process."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = f" ({sigkill_words()})" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


_CGROUPS = Path("/sys/fs/cgroup")
#: With more in use, memory was about to run out: what a dead process had is counted as its peak.
_SHORT = 0.9
_GIB = 1 << 30


def sigkill_words() -> str:
    """Return what is known of the memory of this host when one of its processes got SIGKILL."""
    if _kills() > _KILLS_BEFORE:
        return "the kernel's OOM killer: memory ran out"
    figures = _in_use_and_limit()
    if figures is None:
        return "how much memory was in use is not known"
    used, limit = figures
    state = "short" if used >= _SHORT * limit else "not short"
    return f"memory was {state}: {used / _GIB:.1f} of {limit / _GIB:.1f} GiB in use"


def _kills() -> int:
    """Return how many processes the kernel has killed for memory: in this container, or here."""
    for file in (*_files("memory.events"), *_files("memory.oom_control"), Path("/proc/vmstat")):
        if (count := _numbers(file).get("oom_kill")) is not None:
            return count
    return 0


def _in_use_and_limit() -> tuple[int, int] | None:
    """Return the bytes in use, with the peak of the largest child that has ended, and the limit."""
    machine = _numbers(Path("/proc/meminfo"))
    if not {"MemTotal:", "MemAvailable:"} <= machine.keys():
        return None
    limit = machine["MemTotal:"] * 1024
    used = limit - machine["MemAvailable:"] * 1024
    for name, now in (("memory.max", "memory.current"), ("limit_in_bytes", "usage_in_bytes")):
        for file, other in zip(_files(name), _files(now), strict=True):
            most, current = _number(file), _number(other)
            if most is not None and current is not None and most < limit:
                used, limit = current, most
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return min(used + ended, limit), limit


def _files(name: str) -> list[Path]:
    """Return the places of a file of this process's control group, of version 2 and then 1."""
    old = name if name.startswith("memory.") else f"memory.{name}"
    own = {kinds: path.strip("/") for kinds, path in _own_groups()}
    return [
        _CGROUPS / own.get("", "") / name,
        _CGROUPS / name,
        _CGROUPS / "memory" / own.get("memory", "") / old,
        _CGROUPS / "memory" / old,
    ]


def _own_groups() -> list[tuple[str, str]]:
    lines = _text(Path("/proc/self/cgroup")).splitlines()
    parts = [line.split(":", 2) for line in lines]
    return [(kind, each[2]) for each in parts if len(each) == 3 for kind in each[1].split(",")]


def _numbers(file: Path) -> dict[str, int]:
    """Return the first number after each word that begins a line."""
    parts = [line.split() for line in _text(file).splitlines()]
    return {each[0]: int(each[1]) for each in parts if len(each) > 1 and each[1].isdigit()}


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError):  # no Linux, another version, or a container without it
        return ""


#: The count when this host started.
_KILLS_BEFORE = _kills()
