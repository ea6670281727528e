"""Isolation `sandbox`: a host sees itself as in a container, through bubblewrap.

It has its own /opt/ml, /etc/hosts, host name, process table, /tmp and /dev/shm; the rest of the
machine is visible, read-only. The network is the machine's, and each host has a loopback address.
Isolation `network` adds a network to this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from launcher.client.sessions.local.host.host_folder import SANDBOX_HOME, SANDBOX_TMP, HostFolder
from launcher.client.sessions.local.host.host_python import HostPython
from launcher.client.sessions.local.host.overlay import Overlay
from launcher.client.sessions.local.isolation.host_launch_spec import (
    HostLaunchSpec,
    StartPlan,
    hard_link_channel_files,
    read_only_channels,
    with_local_python,
    write_hosts_file,
)
from launcher.client.sessions.local.job.job_hosts import LocalHost
from launcher.shared import DEFAULT_ML_ROOT, EVENTS_VARIABLE, MlPaths

_INSIDE = MlPaths(DEFAULT_ML_ROOT)
_SHM = Path("/dev/shm")
_TRIAL_SECONDS = 10
_NAMESPACES = (
    ": user namespaces may be forbidden here (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; in a "
    "container, its seccomp profile)"
)


def plan_start(launch_spec: HostLaunchSpec, *, more_options: Sequence[str] = ()) -> StartPlan:
    """Create the host's channels and return the process to start; more_options: for bwrap."""
    hard_link_channel_files(launch_spec)
    hosts_file = write_hosts_file(launch_spec)
    return StartPlan(
        command=[
            *_bwrap_command(launch_spec, hosts_file),
            *more_options,
            *_channel_mounts(launch_spec),
            "--",
            *with_local_python(launch_spec.command, launch_spec.python),
        ],
        environment={
            **launch_spec.environment,
            "HOME": str(SANDBOX_HOME),
            "TMPDIR": str(SANDBOX_TMP),
            EVENTS_VARIABLE: str(_INSIDE.events),
        },
        folder=Path("/"),
        wrappers=2,  # bwrap and its reaper, process 1 of the sandbox
    )


def find_obstacle() -> str | None:
    """Start a small sandbox; return why it does not work on this machine, or None."""
    if shutil.which("bwrap") is None:
        return "bwrap is not on PATH: on Debian and Ubuntu, apt-get install bubblewrap"
    return try_host(plan_start)


def try_host(plan_start: Callable[[HostLaunchSpec], StartPlan]) -> str | None:
    """Start a host that does nothing; return its error, or None."""
    host = LocalHost(
        number=1, group="trial", instance_type="local", address="127.0.0.1", interface="lo"
    )
    with tempfile.TemporaryDirectory(prefix="launcher-") as folder:
        tree, scratch = HostFolder(Path(folder, "host")), Path(folder, "scratch")
        tree.make()
        scratch.mkdir()
        plan = plan_start(
            HostLaunchSpec(
                host=host,
                hosts=[host],
                tree=tree,
                scratch=scratch,
                command=["python3", "-S", "-c", ""],
                environment=dict(os.environ),
                channel_mounts=(),
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
    return trial_error(result)


def trial_error(trial: subprocess.CompletedProcess[str]) -> str | None:
    """Return the last line of a failed trial's errors, and what may help; None if it succeeded."""
    if trial.returncode == 0:
        return None
    words = trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"]
    return f"{words[-1]}{'' if _NAMESPACES in words[-1] else _NAMESPACES}"


def _bwrap_command(launch_spec: HostLaunchSpec, hosts_file: Path) -> list[str]:
    """Return the bwrap command of a host, without its channels; later mounts cover earlier ones."""
    return [
        *(shutil.which("bwrap") or "bwrap", "--die-with-parent"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", launch_spec.host.name),
        *("--ro-bind", "/", "/"),
        *("--dev-bind", "/dev", "/dev", "--tmpfs", str(_SHM), "--proc", "/proc"),
        *("--bind", str(launch_spec.scratch), str(SANDBOX_TMP)),
        *("--tmpfs", "/opt", *_opt_mounts()),
        *_interpreter_mounts(launch_spec.interpreter),
        *_overlay_mount(launch_spec.overlay),
        *("--bind", str(launch_spec.tree.home), str(SANDBOX_HOME)),
        *("--bind", str(launch_spec.tree.ml.root), str(_INSIDE.root)),
        *("--ro-bind", str(hosts_file), "/etc/hosts"),
        *("--chdir", str(_INSIDE.code)),
    ]


def _opt_mounts() -> Iterator[str]:
    """Yield the options that keep the machine's own /opt visible (CUDA, MPI, conda)."""
    opt = _INSIDE.root.parent
    for child in sorted(opt.iterdir()) if opt.is_dir() else ():
        if child in (_INSIDE.root, SANDBOX_HOME):
            continue
        if child.is_symlink():
            yield from ("--symlink", str(child.readlink()), str(child))
        else:
            yield from ("--ro-bind", str(child), str(child))


def _interpreter_mounts(python: HostPython) -> Iterator[str]:
    """Yield mounts for a Python and its packages if /tmp or /dev/shm would hide them."""
    needed = {*python.prefixes, python.programs, *python.path}
    for path in sorted(map(Path, filter(os.path.isabs, needed))):
        if path.exists() and (SANDBOX_TMP in path.parents or _SHM in path.parents):
            yield from ("--ro-bind", str(path), str(path))


def _overlay_mount(overlay: Overlay | None) -> Sequence[str]:
    """Return the mount of a host's packages, which /tmp or /opt might hide."""
    return () if overlay is None else ("--ro-bind", str(overlay.path), str(overlay.path))


def _channel_mounts(launch_spec: HostLaunchSpec) -> Iterator[str]:
    for name, source in read_only_channels(launch_spec):
        yield from ("--ro-bind", str(source), str(_INSIDE.channels / name))
