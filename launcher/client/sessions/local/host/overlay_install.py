"""Installs the requirements of a local job's groups, each content once per interpreter.

Starts no thread: the platform process must have only one when it enters the hosts' network.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.host_python import HostPython, host_python
from launcher.client.sessions.local.host.overlay import UNUSED_SECONDS, Overlay, remove_unused
from launcher.client.sessions.local.host.process_tree import describe_exit, die_with_parent
from launcher.client.sessions.local.host.toolkit_mode import is_script_mode
from launcher.client.sessions.local.job.host_credentials import secret_mask
from launcher.client.sessions.local.job.job_description import JobState
from launcher.client.sessions.local.job.job_folder import JobFolder, Settings
from launcher.client.sessions.local.job.job_hosts import groups_of
from launcher.client.sessions.local.storage.s3_process import TransferStopped
from launcher.client.sessions.local.storage.source_archive import SourceArchive, code_of
from launcher.client.spec import RequirementsFile, read_requirements
from launcher.shared import (
    FAILURE_REASON_LIMIT,
    INSTALL_TIMEOUT_VARIABLE,
    REQUIREMENTS_FILE,
    SecretMask,
    install_timeout,
    project_arguments,
)

if TYPE_CHECKING:
    from launcher.client.sessions.local.storage.s3_process import S3Process
    from launcher.shared import TrainingJobRequest


_POLL_SECONDS = 0.05
#: Never replaced by a newer one that another package would like, unless the user asks for it.
_KEPT = "torch"
_LEFT_OUT = {"PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"}


class InstallFailed(Exception):
    """pip did not install the requirements; the text is the job's reason."""


class InstallStopped(Exception):
    """The job was asked to stop, or its time was up, before the requirements were installed."""

    def __init__(self, ending: JobState) -> None:
        self.ending = ending
        super().__init__(ending.value)


def install_overlays(
    request: TrainingJobRequest,
    folder: JobFolder,
    settings: Settings,
    s3_process: S3Process | None,
    *,
    requested_end: Callable[[], JobState | None],
    on_message: Callable[[str], None],
    on_note: Callable[[str], None],
) -> dict[str, Overlay]:
    """Install what the groups of a job need; return the overlay of each group that needs one.

    Raises InstallFailed, InstallStopped, DownloadFailed or OSError.
    """
    if not settings.install:
        return {}
    try:
        code = code_of(request, folder, s3_process, note=on_note, progress=on_message)
    except TransferStopped:
        raise InstallStopped(JobState.STOPPED) from None
    except tarfile.TarError:
        return {}
    if code is None:
        return {}
    build = _Build(
        code=code,
        folder=folder,
        has_toolkit=is_script_mode(request),
        python=host_python(settings.python),
        variables=request.get("Environment", {}),
        mask=secret_mask(request),
        requested_end=requested_end,
        on_message=on_message,
        on_note=on_note,
    )
    try:
        return _overlays(request, code, build)
    except (tarfile.TarError, EOFError):
        return {}  # the hosts will fail to unpack it, and report it


def _overlays(
    request: TrainingJobRequest, code: SourceArchive, build: _Build
) -> dict[str, Overlay]:
    built: dict[str, Overlay] = {}
    found: dict[str, Overlay] = {}
    for group, _, _ in groups_of(request):
        name = code.requirements.get(group, REQUIREMENTS_FILE)
        if name not in built and (file := read_requirements(name, code.read)):
            built[name] = build.overlay(file)
        if name in built:
            found[group] = built[name]
    return found


@dataclass(frozen=True, kw_only=True)
class _Build:
    """The building of a job's overlays."""

    code: SourceArchive
    folder: JobFolder
    has_toolkit: bool
    python: HostPython
    variables: Mapping[str, str]
    mask: SecretMask
    requested_end: Callable[[], JobState | None]
    on_message: Callable[[str], None]
    on_note: Callable[[str], None]

    def overlay(self, file: RequirementsFile) -> Overlay:
        """Return the complete overlay of a requirements file, built now unless it exists."""
        overlay = Overlay(self.folder.overlays / self._key(file))
        if not overlay.is_complete:
            self.on_message(f"Installing {file.path}")
        while not overlay.use():
            with overlay.try_lock() as lock:
                if lock is not None and not overlay.is_complete:
                    self._build(overlay, file, lock)
            if lock is None:
                self._check_end()
                time.sleep(_POLL_SECONDS)
        return overlay

    def _key(self, file: RequirementsFile) -> str:
        """Return the name of an overlay: same interpreter, same packages, same requirements."""
        identity = {
            "interpreter": [self.python.executable, self.python.build, *self.python.packages],
            "file": file.path,
            "texts": dict(file.texts),
            "variables": self._pip_variables(),
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
        if file.reads_source:
            digest.update(self.code.archive.read_bytes())
        return digest.hexdigest()[:32]

    def _pip_variables(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if name.startswith("PIP_")}

    def _build(self, overlay: Overlay, file: RequirementsFile, lock: int) -> None:
        start = time.monotonic()
        if removed := remove_unused(self.folder.overlays, time.time() - UNUSED_SECONDS):
            self.on_note(f"{removed} folders of requirements, unused for long, were removed")
        overlay.clear()
        try:
            overlay.create(self.python)
            self.code.unpack(overlay.source)
            self._run_pip(overlay, file, lock)
        except BaseException:
            overlay.clear()  # it may have filled the disk
            raise
        overlay.mark_complete()
        self.on_note(
            f"{file.path} was installed in {time.monotonic() - start:.1f} s, for this and later "
            f"jobs (pip's output: {self.folder.requirements_log})"
        )

    def _run_pip(self, overlay: Overlay, file: RequirementsFile, lock: int) -> None:
        command = [str(overlay.python), "-m", "pip", "install", *self._arguments(file)]
        try:
            timeout = install_timeout(self.variables)
        except ValueError as error:
            raise InstallFailed(str(error)) from error
        with self.folder.requirements_log.open("ab") as log:
            begin = log.tell()
            child = subprocess.Popen(
                [*command, *_kept(overlay, file, self.python)],
                cwd=overlay.source,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),  # whoever builds next waits for a pip that outlives this process
                preexec_fn=die_with_parent,
            )
        try:
            self._wait(child, file, timeout)
        finally:
            output = self._masked(self.folder.requirements_log, begin)
        if child.returncode != 0:
            raise InstallFailed(self._reason(command, file, child.returncode, output))

    def _arguments(self, file: RequirementsFile) -> list[str]:
        installed = self.python.installed
        project = project_arguments(
            file.build, installed("setuptools"), has_wheel=installed("wheel") is not None
        )
        listed = ["-r", file.path] if file.is_listed else []
        return [*(project if file.has_setup else []), *listed]

    def _masked(self, log: Path, begin: int) -> str:
        """Replace secrets in what a log has from `begin` on, and return it."""
        with log.open("r+b") as file:
            file.seek(begin)
            output = self.mask.cut(file.read())
            file.seek(begin)
            file.write(output)
            file.truncate()
        return output.decode(errors="replace")

    def _reason(self, command: list[str], file: RequirementsFile, code: int, output: str) -> str:
        if self.has_toolkit:
            return describe_toolkit_failure(command, code, output)
        is_kept = f"(constraint) {_KEPT}" in output
        kept = f"; the installed {_KEPT} is kept, unless {file.path} names {_KEPT} itself"
        log = str(self.folder.requirements_log)
        return describe_failure(file.path, code, output, log=log, hint=kept if is_kept else "")

    def _environment(self) -> dict[str, str]:
        """Return pip's variables: the caller's and the job's own.

        Without the caller's Python path, and without what would install elsewhere.
        """
        inherited = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        own = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        return {**own, **inherited, **self.variables}

    def _wait(self, child: subprocess.Popen[bytes], file: RequirementsFile, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        try:
            while child.poll() is None:
                self._check_end()
                if time.monotonic() > deadline:
                    raise InstallFailed(
                        f"pip did not install {file.path} within {timeout:.0f} s: set "
                        f"{INSTALL_TIMEOUT_VARIABLE} (seconds) in the job's environment"
                    )
                time.sleep(_POLL_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()

    def _check_end(self) -> None:
        ending = self.requested_end()
        if ending is not None and ending is not JobState.INTERRUPTED:
            raise InstallStopped(ending)


def _kept(overlay: Overlay, file: RequirementsFile, python: HostPython) -> list[str]:
    """Return pip's arguments that keep the installed torch, unless the file asks for torch."""
    installed = python.installed(_KEPT)
    if installed is None or file.names(_KEPT):
        return []
    constraint = overlay.path / "constraints.txt"
    constraint.write_text(f"{_KEPT}=={installed}\n", encoding="utf-8")
    return ["-c", str(constraint)]


def describe_failure(file: str, code: int, output: str, *, log: str, hint: str = "") -> str:
    """Return the reason of a job that Launcher starts; log: the path of pip's whole output."""
    cause = f"pip could not install {file}: {describe_exit(code)}{hint} ({log})"
    return "\n".join([cause, *_last_lines(output, FAILURE_REASON_LIMIT - len(cause) - 1)])


def describe_toolkit_failure(command: Sequence[str], code: int, output: str) -> str:
    """Return the reason of a job in script mode, in the form of AWS's toolkit.

    >>> print(describe_toolkit_failure(["pip", "install"], 1, "ERROR: no such package"))
    InstallRequirementsError:
    ExitCode 1
    ErrorMessage "ERROR: no such package"
    Command "pip install"
    """
    status = code if code >= 0 else 128 - code  # as a shell reports a signal
    first = f"InstallRequirementsError:\nExitCode {status}\n"
    last = f'\nCommand "{shlex.join(command)}"'
    room = FAILURE_REASON_LIMIT - len(first) - len(last) - len('ErrorMessage ""')
    said = "\n".join(_last_lines(output, room))
    return f'{first}ErrorMessage "{said}"{last}'


def _last_lines(output: str, room: int) -> list[str]:
    """Return as many of the last lines as have room; of a single long one, its end."""
    lines = [line for line in output.splitlines() if line.strip()]
    while len(lines) > 1 and len("\n".join(lines)) > room:
        lines.pop(0)
    return [line[-room:] for line in lines] if room > 0 else []
