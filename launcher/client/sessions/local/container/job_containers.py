"""The containers of a job: their names, their network, and how one of them is ended."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.local.container.container_engine import (
    ContainerEngine,
    ImageFacts,
    bind_options,
    label_of,
    last_line,
)
from launcher.client.sessions.local.host.host_folder import HostFolder
from launcher.client.sessions.local.job.job_folder import ContainerSettings, JobFolder
from launcher.errors import PlatformError
from launcher.shared import DEFAULT_ML_ROOT

#: The network interface of a container in a network of its engine.
CONTAINER_INTERFACE = "eth0"
#: Exit codes of an engine's `run` for a container that did not start: the engine's own, a program
#: that cannot run, and one that is not there. Programs of a container may end with them too.
_NOT_STARTED = (125, 126, 127)
#: What engines say of a container that has no network: Podman where a part of it is missing or may
#: not work (without root's rights, in another container), Docker of its own.
_NO_NETWORK = re.compile(
    "netavark|slirp4netns|pasta|network namespace|rootless netns|iptables|nftables|CNI"
    "|container networking",
    re.IGNORECASE,
)
_KILLED = 137
_ROOT = "0:0"
#: Files whose owner is changed at once: their names fit on a command line.
_BATCH = 500
_OOM_KILLS = re.compile(r"^oom_kill [1-9]", re.MULTILINE)
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


@dataclass(kw_only=True)
class HostContainer:
    """The container of one host, which its engine knows by `name`.

    tree: the host's folders, which the container sees as /opt/ml. pid_file: where the engine writes
    the ID of its first process, if it can do that. network_problem: why it did not start, if that
    was for want of a network.
    """

    engine: ContainerEngine
    name: str
    image: str
    tree: HostFolder
    pid_file: Path
    network_problem: str | None = None
    _memory_events: Path | None = None
    _has_lacked_memory: bool = False

    def watch(self) -> None:
        """Note whether the kernel has killed a program in it for want of memory.

        Its control group counts that, and is removed with it. Podman's own word is not reliable:
        State.OOMKilled stays false where control groups are hybrid.
        """
        if self._memory_events is None:
            self._memory_events = _memory_events(self.pid_file)
        if self._memory_events is not None and not self._has_lacked_memory:
            with contextlib.suppress(OSError):
                self._has_lacked_memory = bool(_OOM_KILLS.search(self._memory_events.read_text()))

    def terminate(self) -> bool:
        """Send SIGTERM to its first process; return False if it does not run yet."""
        return self.engine.signal(self.name, "TERM")

    def kill(self) -> None:
        """Kill all its processes."""
        self.engine.signal(self.name, "KILL")

    def _was_killed_for_memory(self, code: int) -> bool:
        if self._has_lacked_memory:
            return True
        return code == _KILLED and self.engine.was_killed_for_memory(self.name)

    def end(self, code: int, log: Path) -> str | None:
        """Return why it ended if that is more than an exit code.

        code: the exit code of the engine's program. log: what that and the container printed.
        """
        cause = None
        if code in _NOT_STARTED and not self.engine.has_started(self.name):
            said = log.read_text(errors="replace")
            cause = f"its container did not start: {last_line(said)}"
            if _NO_NETWORK.search(said):
                self.network_problem = last_line(said).removeprefix("Error: ")
        elif code and self._was_killed_for_memory(code):
            cause = "its container needed more memory than it has (killed by SIGKILL)"
        take_back(self.engine, self.image, self.tree)
        return cause


def network_name(job: Path) -> str:
    """Return the name of a job's network, unlike that of a job in another root.

    job: the job's folder.
    """
    return f"{job.name}-{hashlib.sha256(str(job).encode()).hexdigest()[:8]}"


def holder_name(job: Path) -> str:
    """Return the name of the container whose network a job's hosts share."""
    return f"{network_name(job)}-network"


@contextmanager
def job_containers(folder: JobFolder, settings: ContainerSettings) -> Iterator[str | None]:
    """Create a job's network, and remove it with all the job's containers after the block.

    Yields why the engine does not create it, or None.
    """
    engine = ContainerEngine(program=settings.engine)
    is_internal = bool(folder.request().get("EnableNetworkIsolation"))
    problem = None
    try:
        engine.create_network(network_name(folder.path), folder.path, is_internal=is_internal)
    except PlatformError as error:
        problem = str(error)
    try:
        yield problem
    finally:
        engine.remove_all_of(folder.path)


def hold_network(folder: JobFolder, settings: ContainerSettings) -> None:
    """Start the container whose network a job's hosts share; raise PlatformError."""
    engine = ContainerEngine(program=settings.engine)
    engine.hold_network(holder_name(folder.path), folder.path, settings.image)


def remove_hosts(hosts: Iterable[HostContainer]) -> None:
    """Remove the containers of hosts that have ended, some of which may not have been created."""
    if names := {host.name: host.engine for host in hosts}:
        engine = next(iter(names.values()))
        engine.call(*engine.words.remove, *names)


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
        *("--label", label_of(job), "--user", _ROOT),
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


def _memory_events(pid_file: Path) -> Path | None:
    """Return the file in which the control group of a process counts what memory has cost it.

    None for a process that is not there (yet), and for one of another machine.
    """
    try:
        groups = Path("/proc", pid_file.read_text().strip(), "cgroup").read_text().splitlines()
    except OSError:
        return None
    for _, controllers, path in (line.split(":", 2) for line in groups):
        if controllers == "memory":
            return _CONTROL_GROUPS / "memory" / path[1:] / "memory.oom_control"
        if controllers == "" and (_CONTROL_GROUPS / "cgroup.controllers").exists():
            return _CONTROL_GROUPS / path[1:] / "memory.events"
    return None
