"""The Python in which hosts of this machine run: by default the one that runs the client."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.sessions.local.host import python_facts
from launcher.errors import PlatformError

#: The oldest Python in which the job's own code runs.
OLDEST = (3, 10)
_ASK_SECONDS = 60
_ENTRY = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-py[\d.]+)?\.(dist|egg)-info")


@dataclass(frozen=True, kw_only=True)
class HostPython:
    """An interpreter of this machine, and what hosts that run in it see.

    build: its version with compiler and date. path: its sys.path. prefixes: where it is installed,
    and the one below a virtual environment. site_folders: its folders of packages; those that only
    .pth files name are found from these. packages: the names of their .dist-info folders.
    """

    executable: str
    version: tuple[int, ...]
    build: str
    prefixes: tuple[str, ...]
    path: tuple[str, ...]
    site_folders: tuple[str, ...]
    packages: tuple[str, ...]
    has_pip: bool

    @classmethod
    def of(cls, facts: dict[str, Any]) -> HostPython:
        """Return the interpreter that `python_facts` describes."""
        read: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in facts.items()
        }
        return cls(**read)

    @property
    def programs(self) -> str:
        """The folder of its programs."""
        return str(Path(self.executable).parent)

    def installed(self, package: str) -> str | None:
        """Return the version of an installed package, or None."""
        wanted = _normal(package)
        found = (_ENTRY.fullmatch(entry) for entry in self.packages)
        return next((e["version"] for e in found if e and _normal(e["name"]) == wanted), None)


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def host_python(given: str | None) -> HostPython:
    """Return an interpreter: None for the running one, a path, a name on PATH, or a venv's folder.

    Raises PlatformError for what is no Python of version 3.10 or newer.
    """
    if given is None:
        return HostPython.of(python_facts.python_facts())
    return _asked(given)


@functools.cache
def _asked(given: str) -> HostPython:
    """Return an interpreter that has been asked about itself."""
    command = [_program(given), "-I", python_facts.__file__]
    try:
        answer = subprocess.run(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _refused(given, f"it cannot be executed: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise _refused(given, f"it did not answer within {_ASK_SECONDS} s") from None
    try:
        python = HostPython.of(json.loads(answer.stdout))
    except (ValueError, TypeError) as error:
        last_line = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
        raise _refused(given, f"it did not name its version ({last_line})") from error
    if python.version < OLDEST:
        raise _refused(given, f"it is Python {'.'.join(map(str, python.version))}")
    return python


def _program(given: str) -> str:
    path = Path(given).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    found = shutil.which(path) or shutil.which(given)
    if found is None:
        why = "there is no such program" if not path.exists() else "it cannot be executed"
        raise _refused(given, why)
    return os.path.abspath(found)  # noqa: PTH100  links lead out of a virtual environment


def _refused(given: str, why: str) -> PlatformError:
    fix = "give the path of a Python 3.10 or newer, or the folder of its virtual environment"
    return PlatformError(f"hosts cannot run in the Python {given!r}: {why}\n  fix: {fix}")
