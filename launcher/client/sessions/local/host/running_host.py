"""A running host: a local process with its descendants, log and events."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.host.process_tree import describe_exit, processes_of_host
from launcher.client.sessions.local.isolation import StartPlan
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.client.sessions.local.storage.atomic_files import write_json
from launcher.errors import PlatformError
from launcher.shared import descendants, signal_all


class RunningHost:
    """One started host; `exit_code` is None while its first process lives.

    A container ends with its first process; so `poll` then kills the processes left behind.
    """

    def __init__(
        self, host: LocalHost, tree: HostFolder, plan: StartPlan, *, log: Path, events: Path
    ) -> None:
        self.host = host
        self.tree = tree
        self.log = log
        self.events = events
        self.exit_code: int | None = None
        self._wrappers = plan.wrappers
        self._container = plan.container
        self._cause: str | None = None
        _share_events(events, tree)
        self._process = _start(host, plan, log)
        container = plan.container and plan.container.name
        write_json(
            tree.process, {"pid": self.pid, "wrappers": plan.wrappers, "container": container}
        )

    @property
    def pid(self) -> int:
        """The ID of the host's first process on this machine, which may be a wrapper."""
        return self._process.pid

    def poll(self) -> bool:
        """Return True once, when the host has ended."""
        if self.exit_code is not None:
            return False
        if self._container:
            self._container.watch()
        if self._process.poll() is None:
            return False
        self.exit_code = self._process.returncode
        if self._container:
            self._cause = self._container.end(self.exit_code, self.log)
        signal_all(self._own_processes(), signal.SIGKILL)
        return True

    def terminate(self) -> bool:
        """Send SIGTERM to the host's first process, like a container's; return whether it was sent.

        Passing the signal on is up to that process. A host that is still starting has only its
        wrapper processes (bwrap); then nothing is sent.
        """
        if self._container:
            return self._container.terminate()
        first = self._own_processes()[self._wrappers :][:1]
        signal_all(first, signal.SIGTERM)
        return bool(first)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the host."""
        if self._container:
            self._container.kill()
        signal_all(self._own_processes(), signal.SIGKILL)

    @property
    def network_problem(self) -> str | None:
        """Why its container got no network, if it did not start for want of one."""
        return self._container.network_problem if self._container else None

    @property
    def shell_code(self) -> int:
        """The exit code as a container reports it: 128 plus the number of a signal."""
        code = self.exit_code or 0
        return code if code >= 0 else 128 - code

    def describe_exit(self) -> str:
        """Describe the end: "exit code 3", "killed by SIGKILL", "exit code 143 (as after SIGTERM)".

        Like a shell, a sandbox exits with 128 plus the signal's number. A program that obeys
        SIGTERM and reports it exits with the same code.
        """
        if self._cause:
            return self._cause
        code = self.exit_code or 0
        number = code - 128
        if number not in set(signal.Signals):
            return describe_exit(code)
        name = signal.Signals(number).name
        is_kill = self._wrappers and name != "SIGTERM"
        return describe_exit(-number) if is_kill else f"exit code {code} (as after {name})"

    def _own_processes(self) -> list[int]:
        """Return the host's processes: its wrappers, then its first process, then all others."""
        tree = [] if self.exit_code is not None else [self.pid, *descendants(self.pid)]
        adopted = processes_of_host(self.tree.path, descendants(os.getpid()))
        return list(dict.fromkeys(tree + adopted))


def _share_events(events: Path, tree: HostFolder) -> None:
    """Create the file of the host's events, which the host knows by a name of its own."""
    events.touch()
    os.link(events, tree.ml.events)


def _start(host: LocalHost, plan: StartPlan, log: Path) -> subprocess.Popen[bytes]:
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
