"""Runs a user's command in a running host of a local job, as `docker exec` does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.sessions.local.container.container_engine import ContainerEngine
from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.host.module_command import module_command, module_environment
from launcher.client.sessions.local.host.process_tree import processes_of_host
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.job.job_description import is_terminal
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.job.job_hosts import groups_of
from launcher.client.sessions.local.job.orphan_cleanup import reconciled_status
from launcher.client.sessions.local.storage.atomic_files import read_json
from launcher.errors import PlatformError
from launcher.shared import DEFAULT_ML_ROOT, WAIT_FOR_TERMINAL, MlPaths, descendants

_NSENTER = "launcher.client.sessions.local.isolation.host_nsenter"


def run_in_host(folder: JobFolder, host: str, command: Sequence[str]) -> int:
    """Run a command in a host, with this process's input and output; return its exit code.

    It is 128 plus the signal's number, as in a shell, if a signal ended the command.

    Raises PlatformError for a host that does not run.
    """
    tree = tree_of(folder, host)
    started = _start_of(tree, folder)
    settings = folder.settings()
    where = _code_folder(tree, settings.isolation)
    if settings.container is not None:
        words: Sequence[str] = ContainerEngine(program=settings.container.engine).exec_command(
            started["container"], command, folder=where, has_terminal=os.isatty(0)
        )
        environment = None
    else:
        words = module_command(_NSENTER, str(_own_process(tree, folder, started)), where, *command)
        environment = module_environment()
    code = _run_here(words, environment)
    if settings.container is not None and not _is_alive(started, tree, folder):
        print(f"{Path(command[0]).name}: killed: the host has ended", file=sys.stderr)
        return 128 + signal.SIGKILL
    return code


def _run_here(words: Sequence[str], environment: Mapping[str, str] | None) -> int:
    """Run a command on this process's terminal; return its exit code, as a shell has it."""
    with _leave_interrupts_to_command():
        code = subprocess.run(words, cwd="/", env=environment, check=False).returncode
    return code if code >= 0 else 128 - code


@dataclass(frozen=True, kw_only=True)
class WaitingRank:
    """The rank of a job of `launcher run --debug`, which waits for a terminal.

    pid: the process on this machine that has its environment and its namespaces.
    folder: its working folder. command: the program that takes that process's place.
    terminal: the file that tells its host of its end.
    """

    pid: int
    folder: str
    command: Sequence[str]
    terminal: Path

    def run(self) -> int:
        """Run the rank on this process's terminal; return its exit code, as a shell has it."""
        fresh = self.terminal.with_suffix(".new")
        with fresh.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until this process ends, however it does
            fresh.rename(self.terminal)
            words = module_command(_NSENTER, str(self.pid), self.folder, *self.command)
            code = _run_here(words, module_environment())
            file.write(str(code))
            file.flush()
        return code


def waiting_rank(folder: JobFolder) -> WaitingRank | None:
    """Return the rank of a job that waits for a terminal; None if there is none yet."""
    for name in host_names(folder):
        tree = HostFolder(folder.hosts / name)
        with contextlib.suppress(OSError, ValueError):  # the host has not started yet
            for pid in descendants(read_json(tree.process)["pid"]):
                python, *words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
                if words[:2] == ["-c", WAIT_FOR_TERMINAL]:
                    return WaitingRank(
                        pid=pid,
                        folder=_code_folder(tree, folder.settings().isolation),
                        command=[python, "-m", *words[2:]],
                        terminal=tree.ml.terminal,
                    )
    return None


def _code_folder(tree: HostFolder, isolation: Isolation) -> str:
    """Return the path of the code folder as the host sees it."""
    is_process = isolation is Isolation.PROCESS
    return str(tree.ml.code if is_process else MlPaths(DEFAULT_ML_ROOT).code)


def host_names(folder: JobFolder) -> list[str]:
    """Return the names of a job's hosts, in numeric order."""
    hosts = sum(count for *_, count in groups_of(folder.request()))
    return [f"algo-{number}" for number in range(1, hosts + 1)]


def tree_of(folder: JobFolder, host: str) -> HostFolder:
    """Return the folders of a host; raise PlatformError if the job has no such host."""
    known = host_names(folder)
    if host not in known:
        raise PlatformError(
            f"job {folder.name} has no host {host!r}: use one of {', '.join(known)}"
        )
    return HostFolder(folder.hosts / host)


def _start_of(tree: HostFolder, folder: JobFolder) -> dict[str, Any]:
    """Return how a host was started; raise PlatformError unless it runs."""
    status = reconciled_status(folder)
    if is_terminal(status):
        raise PlatformError(
            f"job {folder.name} has ended ({status['TrainingJobStatus']}), and none of its hosts "
            f"runs; `launcher logs {folder.name}` has what they printed"
        )
    try:
        started: dict[str, Any] = read_json(tree.process)
    except (OSError, ValueError):
        raise PlatformError(
            f"host {tree.path.name} of job {folder.name} has not started yet "
            f"({status['SecondaryStatus']}): try again when `launcher status` shows Training"
        ) from None
    if not _is_alive(started, tree, folder):
        raise PlatformError(f"host {tree.path.name} of job {folder.name} has ended: use another")
    return started


def _is_alive(started: dict[str, Any], tree: HostFolder, folder: JobFolder) -> bool:
    """Return whether a host runs, and not only another process of the same ID."""
    if settings := folder.settings().container:
        return ContainerEngine(program=settings.engine).is_running(started["container"])
    return bool(processes_of_host(tree.path, [started["pid"]]))


def _own_process(tree: HostFolder, folder: JobFolder, started: dict[str, Any]) -> int:
    """Return the first process of a host that is the host's own, and not its sandbox's."""
    first = started["pid"]
    own = [first, *descendants(first)][started["wrappers"] :]
    if not own:
        raise PlatformError(f"host {tree.path.name} of job {folder.name} is starting: try again")
    return int(own[0])


@contextmanager
def _leave_interrupts_to_command() -> Iterator[None]:
    """Let Ctrl-C reach the command alone, which shares our terminal, for one block."""
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
