"""The containers of a job: their names, their network, and how one of them is ended."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.local.container.container_engine import (
    JOB_LABEL,
    ContainerEngine,
    ImageFacts,
    bind_options,
)
from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.job.job_folder import ContainerSettings, JobFolder
from launcher.shared import DEFAULT_ML_ROOT

#: The network interface of a container in a network of its engine.
CONTAINER_INTERFACE = "eth0"
#: Exit codes of an engine's `run` for a container that did not start: the engine's own, a program
#: that cannot run, and one that is not there. Programs of a container may end with them too.
_NOT_STARTED = (125, 126, 127)
_KILLED = 137
_ROOT = "0:0"
#: Files whose owner is changed at once: their names fit on a command line.
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class HostContainer:
    """The container of one host, which its engine knows by `name`.

    tree: the host's folders, which the container sees as /opt/ml.
    """

    engine: ContainerEngine
    name: str
    image: str
    tree: HostFolder

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
        take_back(self.engine, self.image, self.tree)
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
    if settings is None:
        return
    engine = ContainerEngine(program=settings.engine)
    engine.remove_all_of(folder.path)
    for host in folder.hosts.iterdir():
        take_back(engine, settings.image, HostFolder(host))


# users -------------------------------------------------------------------------------------------


def user_options(engine: ContainerEngine, image: str, facts: ImageFacts) -> list[str]:
    """Return the options by which an image's user, if it is not root, can write into /opt/ml.

    Our user has that one's IDs in the container, where the engine can do this; else root runs it.
    """
    if facts.runs_as_root:
        return []
    if engine.words.mapped and engine.is_rootless():
        answer = engine.run_alone([], image, ["id"]).stdout
        if ids := re.match(r"uid=(?P<uid>\d+).* gid=(?P<gid>\d+)", answer):
            return [word.format(**ids.groupdict()) for word in engine.words.mapped]
    return ["--user", _ROOT]


def take_back(engine: ContainerEngine, image: str, tree: HostFolder) -> None:
    """Make our user the owner of all that a host's container has written.

    Root of a container is root of this machine, unless the engine is rootless; and any user of an
    image is one of the machine's. So a container does it, by the image's `chown`. Files with
    several names are left out: the user's data may be linked there.
    """
    root = tree.ml.root
    foreign = [str(DEFAULT_ML_ROOT / path.relative_to(root)) for path in _foreign(root)]
    if not foreign:
        return
    owner = _ROOT if engine.is_rootless() else f"{os.geteuid()}:{os.getegid()}"
    job = tree.path.parent.parent
    options = [
        *("--label", f"{JOB_LABEL}={job}", "--user", _ROOT),
        *bind_options(root, DEFAULT_ML_ROOT, read_only=False),
    ]
    for start in range(0, len(foreign), _BATCH):
        paths = foreign[start : start + _BATCH]
        engine.run_alone(options, image, ["chown", "-hR", owner, "--", *paths])


def _foreign(root: Path) -> Iterator[Path]:
    """Yield what is not our user's below a folder; of a folder that is not, nothing below."""
    waiting = [root]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                is_folder = entry.is_dir(follow_symlinks=False)
                if status.st_uid != os.geteuid():
                    if is_folder or status.st_nlink == 1:
                        yield Path(entry.path)
                elif is_folder and os.access(entry.path, os.R_OK | os.X_OK):
                    waiting.append(Path(entry.path))


def _last_line_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")
