"""This machine: its Python, and the folder where jobs are kept."""

from __future__ import annotations

import platform
import shutil
import sys

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions.local.atomic_files import nearest_existing, write_obstacle
from launcher.client.sessions.local.storage_folder import ROOT_VARIABLE, default_root

#: Required by pyproject.toml, and in a job's image too.
_OLDEST_PYTHON = (3, 10)
_GIB = 1 << 30
#: Below the first, a job's logs hardly fit; below the second, a sizeable checkpoint does not.
_LEAST_BYTES = _GIB // 10
_COMFORTABLE_BYTES = 2 * _GIB


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> CheckResult:
    """Check the Python that runs this process and every local host."""
    is_new_enough = version >= _OLDEST_PYTHON
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    return CheckResult(
        part=CheckSection.MACHINE,
        subject="python",
        level=Level.OK if is_new_enough else Level.PROBLEM,
        what=f"{platform.python_version()} ({sys.executable})",
        fix=None if is_new_enough else f"install Launcher into Python {oldest} or newer",
    )


def check_home() -> CheckResult:
    """Check that the folder of local jobs has space and is writable."""
    home = default_root().absolute()
    elsewhere = f"let {ROOT_VARIABLE} name another folder"
    if obstacle := write_obstacle(home):
        return _home(Level.PROBLEM, obstacle, elsewhere)
    free = shutil.disk_usage(nearest_existing(home)).free
    what = f"{home}, {free / _GIB:.1f} GiB free"
    mend = f"make space (old jobs are in {home / 'jobs'}), or {elsewhere}"
    if free < _LEAST_BYTES:
        return _home(Level.PROBLEM, what, mend)
    if free < _COMFORTABLE_BYTES:
        return _home(Level.WARNING, what, mend)
    return _home(Level.OK, what)


def _home(level: Level, what: str, fix: str | None = None) -> CheckResult:
    return CheckResult(
        part=CheckSection.MACHINE, subject="job folder", level=level, what=what, fix=fix
    )
