"""The command line of a container engine, Docker or Podman.

Nothing is assumed of a socket or a daemon, and no library is needed. `ENGINES` has what differs
between the two. Docker's options are those that its program lists; no daemon of it was run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.default_values import local_default
from launcher.client.sessions.local.host.process_tree import HOST_VARIABLE
from launcher.errors import PlatformError


@dataclass(frozen=True, kw_only=True)
class EngineWords:
    """The words by which one engine's command line differs from the other's.

    state: asks whether it works.
    memory: asks for the bytes of memory of the machine that runs containers; on macOS, a virtual
        one.
    rootless: asks whether root of a container is our user; prints "true" if so.
    mapped: for a rootless container in which our user has the IDs of the image's user; empty where
        the engine cannot do that.
    run: for every container.
    gpus: for a container that gets all GPUs.
    pid_file: before the path of a file for the ID of a container's first process.
    name_in_shared: before the host name of a container in another one's network; empty where it has
        the other's name.
    remove: kills and removes containers at once.
    """

    state: tuple[str, ...]
    memory: tuple[str, ...]
    rootless: tuple[str, ...]
    mapped: tuple[str, ...]
    run: tuple[str, ...]
    gpus: tuple[str, ...]
    pid_file: tuple[str, ...]
    name_in_shared: tuple[str, ...]
    remove: tuple[str, ...]


#: Variables of a proxy of this machine, which hosts do not get: it is often one with a password.
PROXIES = tuple(
    name
    for kind in ("all", "ftp", "http", "https", "no")
    for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
)
#: The engines, in the order in which they are looked for.
ENGINES = {
    "docker": EngineWords(
        state=("version", "--format", "{{.Server.Version}}"),
        memory=("info", "--format", "{{.MemTotal}}"),
        rootless=(
            *("info", "--format"),
            '{{range .SecurityOptions}}{{if eq . "name=rootless"}}true{{end}}{{end}}',
        ),
        mapped=(),
        run=tuple(f"--env={name}=" for name in PROXIES),  # which its own settings may have
        gpus=("--gpus", "all"),
        pid_file=(),
        name_in_shared=(),
        remove=("rm", "--force", "--volumes"),
    ),
    "podman": EngineWords(
        state=("ps", "--quiet"),  # it has no server, and `info` takes ten times as long
        memory=("info", "--format", "{{.Host.MemTotal}}"),
        rootless=("info", "--format", "{{.Host.Security.Rootless}}"),
        mapped=("--userns", "keep-id:uid={uid},gid={gid}"),
        run=("--http-proxy=false",),
        gpus=("--device", "nvidia.com/gpu=all"),  # its --gpus does nothing
        pid_file=("--pidfile",),
        name_in_shared=("--hostname",),
        remove=("rm", "--force", "--time=0", "--volumes"),  # else SIGTERM and 10 s first
    ),
}
#: The variable that names the engine to use.
ENGINE_VARIABLE = "LAUNCHER_ENGINE"
_CALL_SECONDS = 60.0
#: Variables that change what the engine's own program does, so that a host's value of one is
#: given on the command line; all others are inherited, where no other user can read them.
_OF_PROGRAM = (
    *("BUILDAH_", "CONTAINER", "DBUS_", "DOCKER_", "LD_", "NETAVARK_", "REGISTRY_", "STORAGE_"),
    *("TMPDIR", "XDG_", "_CONTAINERS_"),
)
#: The last one is by what a host's processes are known; the engine's own outlive the host.
_EXACTLY = frozenset(
    {
        *("HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK", "USER"),
        *("GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"),
        HOST_VARIABLE,
    }
)


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """An image that is present.

    digest: of its content, "sha256:...". platform: such as "linux/amd64". user: in whose name its
    programs run; "" is root. command: its own ENTRYPOINT.
    """

    digest: str
    platform: str
    user: str
    command: tuple[str, ...]

    @property
    def runs_as_root(self) -> bool:
        """True if its programs run as root."""
        return self.user.partition(":")[0] in ("", "0", "root")


@dataclass(frozen=True, kw_only=True)
class ContainerEngine:
    """An engine of this machine; program: the path of its command."""

    program: str

    @property
    def name(self) -> str:
        """Its kind, "docker" or "podman", as the program's name says."""
        return "podman" if "podman" in Path(self.program).name else "docker"

    @property
    def words(self) -> EngineWords:
        """The words that differ between engines."""
        return ENGINES[self.name]

    def find_obstacle(self) -> str | None:
        """Ask the engine for its state; return why it does not work, or None."""
        try:
            answer = self.call(*self.words.state)
        except PlatformError as error:
            return str(error)
        if answer.returncode == 0:
            return None
        return f"{self.name} does not answer: {last_line(answer.stderr)}"

    def total_memory(self) -> int:
        """Return the bytes of memory of the machine on which containers run; 0 if it is unknown."""
        if sys.platform == "linux":
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        answer = self.call(*self.words.memory).stdout.strip()
        return int(answer) if answer.isdecimal() else 0

    def is_rootless(self) -> bool:
        """Return whether root of a container is our user, and not root of this machine."""
        return self.call(*self.words.rootless).stdout.strip() == "true"

    # images ------------------------------------------------------------------------------------

    def find_image(self, image: str) -> ImageFacts | None:
        """Return what an image is; None if it is not present."""
        answer = self.call("image", "inspect", image)
        if answer.returncode != 0:
            return None
        (found, *_) = json.loads(answer.stdout)
        config = found.get("Config") or {}
        digests = found.get("RepoDigests") or [found["Id"]]
        digest = digests[0].rpartition("@")[2]
        return ImageFacts(
            digest=digest if ":" in digest else f"sha256:{digest}",
            platform=f"{found['Os']}/{found['Architecture']}",
            user=config.get("User") or "",
            command=tuple(config.get("Entrypoint") or ()),
        )

    def pull_command(self, image: str, platform: str) -> list[str]:
        """Return the command that makes an image present, for a platform such as "linux/amd64"."""
        return [self.program, "pull", "--platform", platform, image]

    def log_in(self, registry: str, user: str, password: str) -> None:
        """Log in to a registry; raise PlatformError with the engine's words if it refuses."""
        words = ["login", "--username", user, "--password-stdin", registry]
        answer = self.call(*words, stdin=password)
        if answer.returncode != 0:
            raise PlatformError(f"cannot log in to {registry}: {last_line(answer.stderr)}")

    # networks ----------------------------------------------------------------------------------

    def create_network(self, name: str, job: Path, *, is_internal: bool) -> None:
        """Create a network whose containers find each other by name; raise PlatformError.

        is_internal: they reach nothing else.
        """
        inside = ["--internal"] if is_internal else []
        self._must("network", "create", *inside, "--label", label_of(job), name)
        has_names = self.call("network", "inspect", "--format", "{{.DNSEnabled}}", name)
        if has_names.stdout.strip() == "false":  # Podman's alone: Docker's networks have names
            raise PlatformError(
                "a network without names, as it could not find aardvark-dns or the plugin dnsname"
            )

    def hold_network(self, name: str, job: Path, image: str) -> None:
        """Start a container with a loopback alone, which others share; raise PlatformError."""
        alone = ["--detach", "--name", name, "--label", label_of(job), "--network", "none"]
        self._must(*self.run_command(alone, image, ["tail", "-f", "/dev/null"])[1:])

    # containers --------------------------------------------------------------------------------

    def run_command(self, options: Sequence[str], image: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs a container and ends with its exit code.

        command: the container's; its first word replaces the image's ENTRYPOINT. Empty for the
            image's own start with the argument `train`, as SageMaker starts it.
        """
        start = ["--entrypoint", command[0]] if command else []
        arguments = command[1:] if command else ["train"]
        general = ["--pull=never", "--log-driver=none", "--security-opt", "label=disable"]
        own = [*general, *self.words.run]
        return [self.program, "run", *own, *options, *start, image, *arguments]

    def run_alone(
        self, options: Sequence[str], image: str, command: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a container without a network to its end."""
        alone = ["--rm", "--network", "none", *options]
        return self.call(*self.run_command(alone, image, command)[1:])

    def pid_file_options(self, path: Path) -> list[str]:
        """Return the options that write the ID of a container's first process; Docker has none."""
        return [*self.words.pid_file, str(path)] if self.words.pid_file else []

    def exec_command(
        self, container: str, command: Sequence[str], *, folder: str, has_terminal: bool
    ) -> list[str]:
        """Return the command that runs another one in a container, and ends with its exit code."""
        terminal = ["--tty"] if has_terminal else []
        words = ["exec", "--interactive", *terminal, "--workdir", folder, container]
        return [self.program, *words, *command]

    def signal(self, container: str, name: str) -> bool:
        """Send a signal to a container's first process; return whether it was sent."""
        return self.call("kill", "--signal", name, container).returncode == 0

    def has_started(self, container: str) -> bool:
        """Return whether a container was ever started."""
        status = self._state(container, "Status")
        return status not in ("", "created", "configured", "initialized")

    def is_running(self, container: str) -> bool:
        """Return whether a container runs."""
        return self._state(container, "Running") == "true"

    def was_killed_for_memory(self, container: str) -> bool:
        """Return whether the kernel killed a container because of its memory limit."""
        return self._state(container, "OOMKilled") == "true"

    def _state(self, container: str, part: str) -> str:
        """Return a part of a container's state as text; empty without such a container."""
        return self.call("inspect", "--format", f"{{{{.State.{part}}}}}", container).stdout.strip()

    def remove_all_of(self, job: Path) -> None:
        """Remove the containers and networks of a job, running or not.

        job: the job's folder. Raises PlatformError when one cannot be removed.
        """
        containers = self._ids_of(job, "ps", "--all")
        if containers and self.call(*self.words.remove, *containers).returncode != 0:
            # Podman refuses it once where its conmon has died together with the container.
            self._must(*self.words.remove, *self._ids_of(job, "ps", "--all"))
        if networks := self._ids_of(job, "network", "ls"):
            self._must("network", "rm", *networks)

    # calls -------------------------------------------------------------------------------------

    def call(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the engine to its end; raise PlatformError if that cannot be done."""
        try:
            return subprocess.run(
                [self.program, *words],
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_CALL_SECONDS,
                check=False,
            )
        except OSError as error:
            raise PlatformError(f"{self.program} cannot run: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            what = f"`{self.name} {words[0]}` did not end within {_CALL_SECONDS:.0f} s"
            raise PlatformError(what) from None

    def _must(self, *words: str) -> None:
        answer = self.call(*words)
        if answer.returncode != 0:
            what = f"`{self.name} {' '.join(words[:2])}` failed: {last_line(answer.stderr)}"
            raise PlatformError(what)

    def _ids_of(self, job: Path, *words: str) -> list[str]:
        """Return the IDs of what belongs to a job, of those that a command lists."""
        found = self.call(*words, "--quiet", "--filter", f"label={label_of(job)}").stdout
        return list(dict.fromkeys(found.split()))


def label_of(job: Path) -> str:
    """Return the label of all that belongs to a job.

    job: the job's folder.
    """
    return f"launcher.job={job}"


def find_engine(wanted: str | None) -> ContainerEngine:
    """Return an engine: as wanted (a name or path), as $LAUNCHER_ENGINE says, or config.yaml.

    Without any of them, one that is there; of several, one that answers is taken. Raises
    PlatformError without a program.
    """
    asked = wanted or os.environ.get(ENGINE_VARIABLE) or local_default("engine")
    if asked is not None:
        program = shutil.which(asked)
        if program is None:
            raise PlatformError(f"the container engine {asked!r} is not on PATH")
        return ContainerEngine(program=program)
    found = _engines_on_path()
    if len(found) == 1:
        return found[0]
    if not found:
        raise PlatformError(
            "neither docker nor podman is on PATH: on Debian and Ubuntu, apt-get install podman"
        )
    return next((each for each in found if each.find_obstacle() is None), found[0])


def silent_engines() -> Iterator[tuple[str, str]]:
    """Yield the name of each engine on PATH that does not work, and why not.

    None where one is named: the others do not matter.
    """
    if not (os.environ.get(ENGINE_VARIABLE) or local_default("engine")):
        for engine in _engines_on_path():
            if obstacle := engine.find_obstacle():
                yield engine.name, obstacle


def _engines_on_path() -> list[ContainerEngine]:
    return [ContainerEngine(program=path) for path in map(shutil.which, ENGINES) if path]


def environment_options(
    variables: Mapping[str, str],
) -> tuple[list[str], dict[str, str]]:
    """Return the options that give a container variables, and the environment of the engine.

    A value is inherited by name, so that it is on no command line; other users can read those.
    """
    options, inherited = [], dict(os.environ)
    for name, value in variables.items():
        if name in _EXACTLY or name.startswith(_OF_PROGRAM):
            options += ["--env", f"{name}={value}"]
        else:
            options += ["--env", name]
            inherited[name] = value
    return options, inherited


def bind_options(source: Path, target: Path, *, read_only: bool) -> list[str]:
    """Return the options that show a folder of this machine in a container.

    Raises PlatformError for a path that no option of an engine can name.
    """
    suffix = ",readonly" if read_only else ""
    if ":" not in str(source):
        return ["--volume", f"{source}:{target}{':ro' if read_only else ''}"]
    if "," not in str(source) and '"' not in str(source):
        return ["--mount", f"type=bind,source={source},target={target}{suffix}"]
    raise PlatformError(
        f"a container cannot be given {source}, whose path has both a colon and a comma: rename it"
    )


def last_line(text: str) -> str:
    """Return the last line of an engine's errors."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
