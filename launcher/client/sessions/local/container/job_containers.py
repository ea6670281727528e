"""The containers of a job: their names, their network, and how one of them is ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.local.container.container_engine import ContainerEngine
from launcher.client.sessions.local.job.job_folder import ContainerSettings, JobFolder

#: The network interface of a container in a network of its engine.
CONTAINER_INTERFACE = "eth0"
#: Exit codes of an engine's `run` for a container that did not start: the engine's own, a program
#: that cannot run, and one that is not there. Programs of a container may end with them too.
_NOT_STARTED = (125, 126, 127)
_KILLED = 137


@dataclass(frozen=True, kw_only=True)
class HostContainer:
    """The container of one host, which its engine knows by `name`."""

    engine: ContainerEngine
    name: str

    def terminate(self) -> bool:
        """Send SIGTERM to its first process; return False if it does not run yet."""
        return self.engine.signal(self.name, "TERM")

    def kill(self) -> None:
        """Kill all its processes."""
        self.engine.signal(self.name, "KILL")

    def end(self, code: int, log: Path) -> str | None:
        """Remove it after its end; return why it ended if that is more than an exit code.

        code: the exit code of the engine's program. log: what that and the container printed.
        """
        cause = None
        if code in _NOT_STARTED and not self.engine.has_started(self.name):
            cause = f"its container did not start: {_last_line_of(log)}"
        elif code == _KILLED and self.engine.was_killed_for_memory(self.name):
            cause = "its container needed more memory than it has (killed by SIGKILL)"
        self.engine.remove(self.name)
        return cause


def network_name(job: JobFolder | Path) -> str:
    """Return the name of a job's network, unlike that of a job in another root."""
    path = job.path if isinstance(job, JobFolder) else job
    return f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


@contextmanager
def job_containers(folder: JobFolder, settings: ContainerSettings) -> Iterator[None]:
    """Create a job's network, and remove it with all the job's containers after the block.

    Raises PlatformError when the engine does not create it.
    """
    engine = ContainerEngine(program=settings.engine)
    engine.remove_all_of(folder.path)
    engine.create_network(network_name(folder), folder.path)
    try:
        yield
    finally:
        engine.remove_all_of(folder.path)


def remove_containers(folder: JobFolder) -> None:
    """Remove what is left of a job's containers; nothing for a job without.

    Raises PlatformError when its engine does not do it.
    """
    settings = folder.settings().container
    if settings is not None:
        ContainerEngine(program=settings.engine).remove_all_of(folder.path)


def _last_line_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
