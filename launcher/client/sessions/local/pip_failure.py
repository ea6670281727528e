"""The reason of a job whose requirements pip did not install: pip's exit code and last lines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from launcher.client.sessions.local.process_tree import describe_exit
from launcher.shared import FAILURE_REASON_LIMIT


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
