"""Packages that local jobs import: torch and numpy, checked in a subprocess.

The client itself imports neither.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import host_python
from launcher.client.spec import JobSpec

_finding = CheckSection.MACHINE.finding

#: torch takes seconds to import, and many more from a cold disk.
_TIMEOUT_SECONDS = 120
_TORCH_PROGRAM = """\
import json, torch
count = torch.cuda.device_count()
names = sorted({torch.cuda.get_device_name(index) for index in range(count)})
print(json.dumps({"count": count, "names": names}))
"""


def check(spec: JobSpec | None) -> Iterator[CheckResult]:
    """Check torch, numpy and what else a job needs; a missing one that it needs is a problem."""
    for found in check_installed(spec):
        is_torch = found.subject == "torch" and found.level is Level.OK
        yield _imported(found.what, is_needed=needs_torch(spec)) if is_torch else found


def check_installed(spec: JobSpec | None, python: str | None = None) -> Iterator[CheckResult]:
    """Check as `check` does, but import nothing: torch is found, and not asked for its devices.

    python: the interpreter of the job's hosts; None for the running one.
    """
    yield _installed("torch", "PyTorch training", python, is_needed=needs_torch(spec))
    has_service = spec is not None and spec.data_service is not None
    yield _installed("numpy", "the data service", python, is_needed=has_service)
    if spec is not None and spec.distribution is not None:
        for program, fix in spec.distribution.programs.items():
            yield _program(program, fix, spec.distribution.title())


def needs_torch(spec: JobSpec | None) -> bool:
    """Return whether a job cannot run without torch."""
    return spec is not None and spec.distribution is not None and spec.distribution.needs_torch


def _imported(version: str, *, is_needed: bool) -> CheckResult:
    """Import the torch that is installed, and ask it for its devices."""
    seen = _run_python(_TORCH_PROGRAM)
    if isinstance(seen, str):
        return _finding(
            "torch",
            Level.PROBLEM if is_needed else Level.WARNING,
            f"{version} is installed but cannot be imported: {seen}",
            f"reinstall it: {sys.executable} -m pip install --force-reinstall torch",
        )
    devices = f"{seen['count']} CUDA devices ({', '.join(seen['names'])})"
    what = f"{version}, {devices if seen['count'] else 'no CUDA device: ranks use the CPUs'}"
    return _finding("torch", Level.OK, what)


def _installed(package: str, user: str, python: str | None, *, is_needed: bool) -> CheckResult:
    version = installed_version(package, python)
    if version is None:
        return _not_installed(package, user, python or sys.executable, is_needed=is_needed)
    return _finding(package, Level.OK, version)


def _program(program: str, fix: str, distribution: str) -> CheckResult:
    path = shutil.which(program)
    if path is not None:
        return _finding(program, Level.OK, path)
    what = f"not on PATH, but the job's distribution {distribution} needs it"
    return _finding(program, Level.PROBLEM, what, fix)


def _not_installed(package: str, user: str, python: str, *, is_needed: bool) -> CheckResult:
    return _finding(
        package,
        Level.PROBLEM if is_needed else Level.WARNING,
        f"not installed for {python}; {user} needs it",
        "install torch and numpy (the extra 'torch' of hetero-launcher)",
    )


def installed_version(package: str, python: str | None = None) -> str | None:
    """Return the version of a package that an interpreter has, by default the running one."""
    if python is not None:
        return host_python(python).installed(package)
    from importlib.metadata import PackageNotFoundError, version  # 15 ms to import

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _run_python(program: str) -> Any:
    """Return the JSON that a Python like the hosts' prints, or its last line of error as text."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd="/",  # a torch.py in the user's folder must not shadow torch
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the import timed out after {_TIMEOUT_SECONDS} s"
    if run.returncode != 0:
        return (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
    return json.loads(run.stdout.splitlines()[-1])


def unmet_needs(spec: JobSpec, python: str | None = None) -> Iterator[str]:
    """Yield a warning for each package or program that the job needs and this machine lacks.

    python: the interpreter of its hosts; None for the running one.
    """
    for finding in check_installed(spec, python):
        if finding.level is Level.PROBLEM:
            yield f"{finding.subject}: {finding.what}; {finding.fix}"
