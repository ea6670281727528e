"""Run a program of launcher.trainers in a subprocess: one JSON request, one answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

import launcher
from launcher.errors import ParallelError, PlatformError
from launcher.shared import parse_event, printable

#: Prefix of the line with the process's error message.
_ERROR = "error: "


def run_task_program(program: str, request: Mapping[str, object]) -> str:
    """Run a program of launcher.trainers and return its answer; its other output goes to stderr.

    request: plain values. The program also gets `output`, the file descriptor for the answer, and
    `lifeline`, that of a pipe which is closed when the process has to end.

    Whatever ends the wait, including Ctrl-C, kills the process and everything that it has started.
    If this process itself is killed, they end too, and there is no file to be left behind. Raises
    ParallelError with the program's reason, and PlatformError without torch.
    """
    _require_torch()
    with TemporaryFile("w+") as output, _lifeline() as lifeline:
        passed = {"output": output.fileno(), "lifeline": lifeline}
        question = json.dumps({**request, **passed})
        with _started(program, question, tuple(passed.values())) as process:
            refusal = _follow(process)
            code = process.wait()
        if code != 0:
            raise _fault(code, refusal)
        output.seek(0)
        return output.read()


def _require_torch() -> None:
    missing = [name for name in ("torch", "numpy") if find_spec(name) is None]
    if missing:
        raise PlatformError(
            f"a model is profiled with {' and '.join(missing)}, which {sys.executable} does not "
            "have: pip install 'hetero-launcher[torch]'"
        )


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the end to read of a pipe that is closed when this process ends, however it does."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def _started(program: str, question: str, passed: Sequence[int]) -> Iterator[subprocess.Popen[str]]:
    with TemporaryFile("w+") as standard_input:
        standard_input.write(question)
        standard_input.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", f"launcher.trainers.{program}"],
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Python imports from here first, so a launcher.py in the user's folder is not imported.
            cwd=Path(launcher.__file__).parents[1],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            pass_fds=passed,
        )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _follow(process: subprocess.Popen[str]) -> str:
    """Forward the process's output to stderr; return its error message, if any.

    Event lines, from its data loader, are dropped: they are meant for the logs of jobs.
    """
    refusal = ""
    for line in process.stdout or ():
        if refusal or line.startswith(_ERROR):
            refusal = line if line.startswith(_ERROR) else refusal + line
        elif parse_event(line) is None:
            print(printable(line), end="", file=sys.stderr, flush=True)
    return refusal.removeprefix(_ERROR).strip()


def _fault(code: int, refusal: str) -> ParallelError:
    if code == -signal.SIGKILL:
        return ParallelError(
            "the process that profiles the model was killed (SIGKILL), probably because memory ran "
            'out: use the profile "estimated", which allocates no weights and no activations'
        )
    return ParallelError(
        refusal or f"the process that profiles the model ended with exit code {code}; see above"
    )
