"""Isolation `sandbox`: a host sees itself as a container does, by bubblewrap.

It has its own /opt/ml, /etc/hosts, host name, process table, /tmp and /dev/shm; the rest of the
machine is there, read-only. The network is the machine's: each host has a loopback address.
Isolation `network` adds a network to this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from launcher.contract import DEFAULT_ML_ROOT, MlPaths
from launcher.sessions.local.cluster import Host
from launcher.sessions.local.isolation.berth import (
    Berth,
    StartPlan,
    place_copies,
    with_running_python,
)
from launcher.sessions.local.opt_ml import HostTree

_INSIDE = MlPaths(DEFAULT_ML_ROOT)
_HOME = Path("/opt/home")
_TMP = Path("/tmp")
_SHM = Path("/dev/shm")
_TRIAL_SECONDS = 10
_NAMESPACES = (
    ": user namespaces may be forbidden here (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a "
    "container, its seccomp profile)"
)


def plan_start(berth: Berth, *, more_walls: Sequence[str] = ()) -> StartPlan:
    """Put the host's channels in place and say what to run; more_walls: options for bwrap."""
    _place_shards(berth)
    hosts_file = berth.tree.path / "etc-hosts"
    hosts_file.write_text(hosts_table(berth.hosts))
    return StartPlan(
        command=[
            *_walls(berth, hosts_file),
            *more_walls,
            *_channel_mounts(berth),
            "--",
            *with_running_python(berth.command),
        ],
        environment={**berth.environment, "HOME": str(_HOME), "TMPDIR": str(_TMP)},
        folder=Path("/"),
        wrappers=2,  # bwrap, and its reaper: process 1 of the sandbox
    )


def hosts_table(hosts: Sequence[Host]) -> str:
    """/etc/hosts of a job."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    return "\n".join(lines + [f"{host.address} {host.name}" for host in hosts]) + "\n"


def find_obstacle() -> str | None:
    """Why a sandbox does not work on this machine, or None: a small one is started to see."""
    if shutil.which("bwrap") is None:
        return "there is no bwrap on PATH: on Debian and Ubuntu, apt-get install bubblewrap"
    return try_host(plan_start)


def try_host(plan_start: Callable[[Berth], StartPlan]) -> str | None:
    """Start a host that does nothing; what it complains of, or None."""
    host = Host(number=1, group="trial", instance_type="local", address="127.0.0.1", interface="lo")
    with tempfile.TemporaryDirectory(prefix="launcher-") as folder:
        tree, scratch = HostTree(Path(folder, "host")), Path(folder, "scratch")
        tree.make()
        scratch.mkdir()
        plan = plan_start(
            Berth(
                host=host,
                hosts=[host],
                tree=tree,
                scratch=scratch,
                command=["python3", "-S", "-c", ""],
                environment=dict(os.environ),
                supplies=(),
            )
        )
        try:
            result = subprocess.run(
                plan.command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TRIAL_SECONDS,
                check=False,
                preexec_fn=plan.before,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    return complaint_of(result)


def complaint_of(trial: subprocess.CompletedProcess[str]) -> str | None:
    """The last words of a trial that failed, and what may help; None of one that did not."""
    if trial.returncode == 0:
        return None
    words = trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"]
    return f"{words[-1]}{'' if _NAMESPACES in words[-1] else _NAMESPACES}"


def _walls(berth: Berth, hosts_file: Path) -> list[str]:
    """The bwrap command that makes a host, without its channels; later mounts cover earlier."""
    return [
        *(shutil.which("bwrap") or "bwrap", "--die-with-parent"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", berth.host.name),
        *("--ro-bind", "/", "/"),
        *("--dev-bind", "/dev", "/dev", "--tmpfs", str(_SHM), "--proc", "/proc"),
        *("--bind", str(berth.scratch), str(_TMP)),
        *("--tmpfs", "/opt", *_other_children_of_opt()),
        *_interpreter_mounts(),
        *("--bind", str(berth.tree.home), str(_HOME)),
        *("--bind", str(berth.tree.ml.root), str(_INSIDE.root)),
        *("--ro-bind", str(hosts_file), "/etc/hosts"),
        *("--chdir", str(_INSIDE.code)),
    ]


def _other_children_of_opt() -> Iterator[str]:
    """What the machine itself has in /opt (CUDA, MPI, conda) stays visible."""
    opt = _INSIDE.root.parent
    for child in sorted(opt.iterdir()) if opt.is_dir() else ():
        if child in (_INSIDE.root, _HOME):
            continue
        if child.is_symlink():
            yield from ("--symlink", str(child.readlink()), str(child))
        else:
            yield from ("--ro-bind", str(child), str(child))


def _interpreter_mounts() -> Iterator[str]:
    """The running Python and its packages, where /tmp or /dev/shm of the host would hide them."""
    needed = {sys.prefix, sys.base_prefix, str(Path(sys.executable).parent), *sys.path}
    for path in sorted(map(Path, filter(os.path.isabs, needed))):
        if path.exists() and (_TMP in path.parents or _SHM in path.parents):
            yield from ("--ro-bind", str(path), str(path))


def _place_shards(berth: Berth) -> None:
    """Single files of a channel: hard links, since a link would point to what the host hides."""
    for supply in berth.supplies:
        place = berth.tree.ml.channels / supply.channel.name
        place.mkdir()
        place_copies(place, supply.files)


def _channel_mounts(berth: Berth) -> Iterator[str]:
    """The channels, read-only: a job cannot change the user's data, but what was fetched for it."""
    for supply in berth.supplies:
        if supply.is_own:
            continue
        place = berth.tree.ml.channels / supply.channel.name
        source = place if supply.folder is None else supply.folder.resolve()
        yield from ("--ro-bind", str(source), str(_INSIDE.channels / supply.channel.name))
