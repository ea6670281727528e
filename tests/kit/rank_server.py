"""A process that has imported torch once and forks ranks, each as a new interpreter would run it.

It reads a request for each run as a line of JSON from stdin, and answers two lines on stdout: the
pid of the run's agent, which leads a session of its own, and the run's exit code. The agent does
what torchrun's does: it serves the store, gives each rank torchrun's variables, ends all ranks when
one has failed, and then exits with 1.

A new torchrun with two ranks costs 4.6 s of processor time before the first line of a script.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TypedDict

# What most scripts of tests import. It starts no thread, which a fork would lose.
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.export
import torch.nn.parallel

from launcher import parallel
from launcher.trainers import loop

#: Seconds that ranks have to end after SIGTERM: torchrun gives them 30.
_GRACE = 10.0

__all__ = ["dist", "loop", "parallel", "torch"]


class Request(TypedDict):
    """A program, and how it is run. arguments: those of a Python interpreter."""

    arguments: list[str]
    ranks: int
    variables: dict[str, str]
    folder: str
    output: str


def main() -> None:
    """Serve until stdin ends. It also returns in a forked rank, once its program has run."""
    gc.freeze()
    for line in sys.stdin:
        request: Request = json.loads(line)
        if (agent := os.fork()) == 0:
            return _lead(request)
        print(agent, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1]), flush=True)
    return None


def _lead(request: Request) -> None:
    """Be the agent of one run, or a rank of it."""
    os.setsid()
    os.chdir(request["folder"])
    with Path(request["output"]).open("ab") as output, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    arguments, ranks, variables = request["arguments"], request["ranks"], request["variables"]
    if ranks == 1:
        return _run(arguments, variables)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        pids = []
        for rank in range(ranks):
            if (pid := os.fork()) == 0:
                listening.close()
                return _run(arguments, variables | _variables_of(rank, ranks, port))
            pids.append(pid)
        store = dist.TCPStore(
            "127.0.0.1",
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listening.detach(),
            timeout=timedelta(seconds=60),
        )
        code = _watch(pids)
        del store  # the ranks needed it until now
        os._exit(code)


def _variables_of(rank: int, ranks: int, port: int) -> dict[str, str]:
    """The variables of torchrun for a rank on the only host."""
    numbers = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "ROLE_RANK": rank,
        "GROUP_RANK": 0,
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "ROLE_WORLD_SIZE": ranks,
        "GROUP_WORLD_SIZE": 1,
        "MASTER_PORT": port,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
    }
    return {
        **{name: str(number) for name, number in numbers.items()},
        "MASTER_ADDR": "127.0.0.1",
        "ROLE_NAME": "default",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def _watch(pids: list[int]) -> int:
    """The run's exit code, once all ranks have ended: those that one failure leaves are ended."""
    running = set(pids)
    code = 0
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if status and not code:
            code = 1
            print(f"rank {pids.index(pid)}: {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
            _end(running)
            break
    return code


def _end(running: set[int]) -> None:
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while running and time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            running.discard(os.waitpid(-1, os.WNOHANG)[0])
        time.sleep(0.01)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _run(arguments: list[str], variables: Mapping[str, str]) -> None:
    """Run a program as a new interpreter would; its SystemExit and exit handlers included."""
    os.environ.clear()
    os.environ.update(variables)
    module = arguments[1] if arguments[0] == "-m" else None
    sys.path[0] = str(Path.cwd() if module else Path(arguments[0]).parent)
    sys.argv = [*arguments[1:]] if module else [*arguments]
    faulthandler.enable()
    try:
        if module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except Exception:  # noqa: BLE001 (an interpreter prints whatever its program raised)
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
