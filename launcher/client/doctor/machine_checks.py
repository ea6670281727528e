"""Check this machine: Python, the folder for local jobs, working isolation modes."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator
from functools import partial

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.home import HOME_VARIABLE, home_folder
from launcher.client.sessions import (
    Isolation,
    nearest_existing,
    obstacles,
    silent_engines,
    write_obstacle,
)

_finding = CheckSection.MACHINE.finding
#: Required by pyproject.toml, and in a job's image too.
_OLDEST_PYTHON = (3, 10)
_GIB = 1 << 30
#: Below the first, a job's logs hardly fit; below the second, a sizeable checkpoint does not.
_LEAST_BYTES = _GIB // 10
_COMFORTABLE_BYTES = 2 * _GIB
_PROPERTIES = {
    Isolation.PROCESS: "works: hosts have folders and addresses of their own",
    Isolation.SANDBOX: "works: hosts also have their own /opt/ml, host name and processes",
    Isolation.NETWORK: "works: hosts also have a network of their own",
    Isolation.CONTAINER: "works: hosts are containers of the job's image",
}
_FIXES = {
    Isolation.SANDBOX: "install bubblewrap (apt-get install bubblewrap), and allow unprivileged "
    "user namespaces",
    Isolation.NETWORK: "install bubblewrap, iproute2 and util-linux (apt-get install bubblewrap "
    "iproute2 util-linux), and allow unprivileged user namespaces",
    Isolation.CONTAINER: "start the daemon of Docker, or install Podman (apt-get install podman), "
    "and name the one to use by LAUNCHER_ENGINE",
}


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> CheckResult:
    """Check the Python that runs this process and every local host."""
    is_new_enough = version >= _OLDEST_PYTHON
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    return _finding(
        "python",
        Level.OK if is_new_enough else Level.PROBLEM,
        f"{platform.python_version()} ({sys.executable})",
        None if is_new_enough else f"install Launcher into Python {oldest} or newer",
    )


def check_home() -> CheckResult:
    """Check that the folder of local jobs has space and is writable."""
    home = home_folder().absolute()
    finding = partial(_finding, "job folder")
    other_folder = f"set {HOME_VARIABLE} to another folder"
    if obstacle := write_obstacle(home):
        return finding(Level.PROBLEM, obstacle, other_folder)
    free = shutil.disk_usage(nearest_existing(home)).free
    what = f"{home}, {free / _GIB:.1f} GiB free"
    fix = f"free space (old jobs are in {home / 'jobs'}), or {other_folder}"
    if free < _LEAST_BYTES:
        return finding(Level.PROBLEM, what, fix)
    if free < _COMFORTABLE_BYTES:
        return finding(Level.WARNING, what, fix)
    return finding(Level.OK, what)


def check_isolations() -> Iterator[CheckResult]:
    """Yield a finding for each isolation; a broken one is a warning if another one works."""
    found = obstacles()
    none_works = all(found.values())
    for isolation, obstacle in found.items():
        yield _isolation(isolation, obstacle, Level.PROBLEM if none_works else Level.WARNING)
    if found[Isolation.CONTAINER] is None:  # by another one
        for engine, obstacle in silent_engines():
            yield _finding(
                f"engine {engine}",
                Level.WARNING,
                f"{obstacle}; jobs in containers use the other engine",
                "start its daemon, or name the other engine by LAUNCHER_ENGINE",
            )


def _isolation(isolation: Isolation, obstacle: str | None, level: Level) -> CheckResult:
    subject = f"isolation {isolation.value}"
    if not obstacle:
        return _finding(subject, Level.OK, _PROPERTIES[isolation])
    fix = _FIXES.get(isolation) if sys.platform == "linux" else None
    return _finding(subject, level, f"does not work: {obstacle}", fix)
