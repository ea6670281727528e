"""Processes of this host that were stopped (SIGSTOP) and would hold up the job without a word.

A stopped process keeps its connections open and answers nothing. It is named in the log, and a
process of the data service is killed after a while, so that what follows is that of any crash: a
dispatcher and a worker are replaced, and a receiver fails the job. Ranks are left to the watchdog
for hangs, which has a limit of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from launcher.runtime.host.event_log import emit
from launcher.shared import descendants, read_process_file

#: Seconds between two looks; for which a process is stopped before it is named; and killed.
_INTERVAL = 2.0
NAMED_AFTER = 3.0
KILLED_AFTER = 30.0
#: The modules that Launcher starts, and those of the data service among them.
_MODULE = re.compile(rb"\0-m\0(launcher\.(?:data|runtime|trainers)(?:\.\w+)*)\0")
_SERVICES = ("launcher.data.dispatcher", "launcher.data.receiver", "launcher.data.worker")


class StoppedProcesses:
    """Names and ends the stopped processes below this one; `check` is called often."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self._named: set[int] = set()
        self._killed: set[int] = set()
        self._next = 0.0

    def check(self) -> None:
        """Look at the processes below this one, at most once in two seconds."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        stopped = [pid for pid in descendants(os.getpid()) if _is_stopped(pid)]
        self._since = {pid: self._since.get(pid, now) for pid in stopped}
        self._named &= self._since.keys()
        for pid, since in self._since.items():
            if now - since >= NAMED_AFTER:
                self._end(pid, now - since)

    def cause(self, pid: int) -> str:
        """Return what to add to the cause of a process's end: "" unless it was killed here."""
        if pid not in self._killed:
            return ""
        return f"; it had been stopped (SIGSTOP) for {KILLED_AFTER:.0f} s, and was killed for that"

    def _end(self, pid: int, seconds: float) -> None:
        """Name one of our modules once, and kill it if it is part of the data service."""
        match = _MODULE.search(read_process_file(pid, "cmdline"))
        if match is None:
            return  # a process of the user's own
        module = match[1].decode()
        if pid not in self._named:
            self._named.add(pid)
            emit("process_stopped", process=module, pid=pid, seconds=round(seconds))
        if seconds >= KILLED_AFTER and module in _SERVICES:
            emit("stopped_process_killed", process=module, pid=pid, seconds=round(seconds))
            self._killed.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal; one in a debugger is not."""
    fields = read_process_file(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] == b"T"
