"""A host that runs: a process of this machine, everything below it, and its log."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from launcher.errors import PlatformError
from launcher.sessions.local.cluster import Host
from launcher.sessions.local.isolation import StartPlan
from launcher.sessions.local.opt_ml import HostTree
from launcher.sessions.local.processes import (
    descendants,
    how_it_ended,
    marked,
    signal_all,
)


class RunningHost:
    """One started host; `exit_code` is None while its first process lives.

    A container ends when its first process does: `poll` then kills what that left behind.
    """

    def __init__(self, host: Host, tree: HostTree, plan: StartPlan, log: Path) -> None:
        self.host = host
        self.tree = tree
        self.log = log
        self.exit_code: int | None = None
        self._wrappers = plan.wrappers
        self._process = _start(host, plan, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> bool:
        """Whether the host has ended; True once only."""
        if self.exit_code is not None or self._process.poll() is None:
            return False
        self.exit_code = self._process.returncode
        signal_all(self._own_processes(), signal.SIGKILL)
        return True

    def terminate(self) -> bool:
        """SIGTERM to the host's first process, as to a container's; whether it has begun.

        Passing it on is for that process to do. A host that is being started has only what wraps
        it (bwrap): then nothing is sent.
        """
        first = self._own_processes()[self._wrappers :][:1]
        signal_all(first, signal.SIGTERM)
        return bool(first)

    def kill(self) -> None:
        """SIGKILL to the host's whole tree."""
        signal_all(self._own_processes(), signal.SIGKILL)

    def how_it_ended(self) -> str:
        """In words: "exit code 3", "killed by SIGKILL", or "exit code 143 (as after SIGTERM)".

        A sandbox's own exit code for a signal is 128 and its number, as a shell's is; and so is
        that of a program which obeys SIGTERM and says so.
        """
        code = self.exit_code or 0
        number = code - 128
        if number not in set(signal.Signals):
            return how_it_ended(code)
        name = signal.Signals(number).name
        is_kill = self._wrappers and name != "SIGTERM"
        return how_it_ended(-number) if is_kill else f"exit code {code} (as after {name})"

    def _own_processes(self) -> list[int]:
        """The host's processes, its first one and then its wrappers before all others."""
        tree = [] if self.exit_code is not None else [self.pid, *descendants(self.pid)]
        adopted = marked(self.tree.path, descendants(os.getpid()))
        return list(dict.fromkeys(tree + adopted))


def _start(host: Host, plan: StartPlan, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        try:
            return subprocess.Popen(
                plan.command,
                env=dict(plan.environment),
                cwd=plan.folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=plan.before,
            )
        except OSError as error:
            raise PlatformError(
                f"host {host} cannot start {plan.command[0]!r}: {error.strerror}"
            ) from error
