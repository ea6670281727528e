"""Runs of ranks, each a fork of one process that has imported torch: see rank_server."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]


class Done(NamedTuple):
    """How a run ended. output: what its ranks printed, on stdout and stderr."""

    code: int
    output: str


def run_ranks(
    *arguments: str,
    ranks: int,
    variables: dict[str, str],
    output: Path,
    folder: Path = REPOSITORY,
    patience: float,
) -> Done:
    """Run a script, or `-m` and a module, on so many ranks as torchrun does; one has no torchrun.

    Raises:
        subprocess.TimeoutExpired: After `patience` seconds; the ranks have been killed.
    """
    output.unlink(missing_ok=True)
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    request = {
        "arguments": arguments,
        "ranks": ranks,
        "variables": variables,
        "folder": str(folder),
        "output": str(output),
    }
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    agent = int(server.stdout.readline())
    try:
        if not select.select([server.stdout], [], [], patience)[0]:
            raise subprocess.TimeoutExpired(list(arguments), patience, output.read_bytes())
    except BaseException:  # the time limit of the test, too
        os.killpg(agent, signal.SIGKILL)
        server.stdout.readline()
        raise
    code = int(server.stdout.readline())
    return Done(code, output.read_text())


@functools.cache
def _server() -> subprocess.Popen[bytes]:
    """Start the process that forks, at first use; it ends with this one."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("rank_server.py"))],
        bufsize=0,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C reaches the tests, which end it
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    for pipe in (server.stdin, server.stdout):
        assert pipe is not None
        pipe.close()
    server.wait(30)
