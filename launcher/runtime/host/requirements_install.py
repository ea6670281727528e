"""Installs the packages that the user's source lists, before the host does anything else.

The command is that of sagemaker-training 5.1.4 (modules.py): `python -m pip install -r FILE` in the
code folder, and `.` too if that has a setup.py. pip reads PIP_* variables and its own configuration
as always.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from launcher.runtime.host import processes
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.job_host import FAILURE_GRACE, JobHost
from launcher.runtime.host.output import Output
from launcher.shared import (
    BUILD_FILE,
    INSTALL_TIMEOUT_VARIABLE,
    REQUIREMENTS_FILE,
    REQUIREMENTS_VARIABLE,
    SETUP_FILE,
    describes_package,
    install_timeout,
    project_arguments,
)


def install_requirements(host: JobHost) -> None:
    """Install what the source lists for this host, if no platform has done it before.

    Raises HostFailed with pip's exit code and last lines; JobEnded or StopRequested meanwhile.
    """
    environment = host.environment
    own = environment.document.requirements.get(environment.cluster.group.name)
    code, file = environment.paths.code, own or REQUIREMENTS_FILE
    if own is not None and not (code / file).is_file():
        raise host.failure(f"the requirements file {own} is not in the bundle")
    arguments = _arguments(code, file)
    if not arguments:
        return
    name = file if file in arguments else SETUP_FILE
    if REQUIREMENTS_VARIABLE in os.environ:
        report_provided(name)
    else:
        _install(host, name, arguments)


def _arguments(code: Path, file: str) -> list[str]:
    """Return pip's arguments for the requirements file and the project in the code folder."""
    listed = ["-r", file] if (code / file).is_file() else []
    if not describes_package(_text(code / SETUP_FILE) or ""):
        return listed
    has_wheel = importlib.util.find_spec("wheel") is not None
    build = _text(code / BUILD_FILE)
    return [*project_arguments(build, _setuptools(), has_wheel=has_wheel), *listed]


def _text(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.is_file() else None


def _setuptools() -> str | None:
    try:
        return importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return None


def report_provided(file: str) -> None:
    """Emit what the platform has done about a requirements file that this host has."""
    emit("requirements", file=file, platform=os.environ.get(REQUIREMENTS_VARIABLE, "not-installed"))


def _install(host: JobHost, file: str, arguments: Sequence[str]) -> None:
    if importlib.util.find_spec("pip") is None:
        raise host.failure(
            f"{file} cannot be installed: {sys.executable} has no pip: use an image that has it, "
            "or one that has the packages"
        )
    try:
        timeout = install_timeout(os.environ)
    except ValueError as error:
        raise host.failure(str(error)) from error
    start = time.monotonic()
    emit("requirements_started", file=file)
    output = Output()
    child = _start_pip(host, arguments, output)
    _wait(host, child, file, timeout)
    output.drain()
    if child.returncode != 0:
        how = processes.describe_exit(child.returncode)
        raise host.failure(f"pip could not install {file}: {how}", detail=output.last_lines())
    importlib.invalidate_caches()
    emit("requirements_installed", file=file, seconds=round(time.monotonic() - start, 3))


def _start_pip(host: JobHost, arguments: Sequence[str], output: Output) -> subprocess.Popen[bytes]:
    variables = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # its notice would be the last line of a failure
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # of an image whose Python is Debian's; nobody else's
        **host.variables,
        "PYTHONPATH": _without_own_folders(host),
    }
    command = [sys.executable, "-m", "pip", "install", *arguments]
    try:
        return output.start(command, environment=variables, folder=host.environment.paths.code)
    except OSError as error:
        raise host.refused("pip", error, variables) from error


def _without_own_folders(host: JobHost) -> str:
    """Return PYTHONPATH without the bundle, whose modules could hide those of pip."""
    root = host.environment.paths.root
    paths = host.variables.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(path for path in paths if path and root not in Path(path).parents)


def _wait(host: JobHost, child: subprocess.Popen[bytes], file: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout

    def check_timeout() -> None:
        if time.monotonic() > deadline:
            host.end_children(FAILURE_GRACE)
            raise host.failure(
                f"pip did not install {file} within {timeout:.0f} s: set "
                f"{INSTALL_TIMEOUT_VARIABLE} (seconds) in the job's environment, or use an image "
                "that has the packages"
            )

    host.wait(child, check_timeout)
