"""A process that does something with a task for a program of the user's machine.

The request is read from stdin as JSON, and the answer is written to the file that it names.
Progress goes to stderr; on failure its last line gives the reason after "error: ". The process
ends, with all that it has started, when the one that asked for it does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from launcher.errors import LauncherError
from launcher.shared import enter


def serve(answer: Callable[[Mapping[str, Any]], str]) -> int:
    """Answer the request on stdin and return the exit code.

    The request has the fields source_dir, the folder of the task's code; output, the path or
    descriptor of the file to write; and lifeline, the descriptor of a pipe or None: the process
    group is killed when its other end is closed.
    """
    request = json.load(sys.stdin)
    if request.get("lifeline") is not None:
        threading.Thread(target=_end_with, args=(request["lifeline"],), daemon=True).start()
    folder = str(Path(request["source_dir"]).resolve())
    enter(folder, folder)
    # As in a rank under torchrun.
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    try:
        text = answer(request)
        with open(request["output"], "w") as file:  # noqa: PTH123 - it may be a descriptor
            file.write(text)
    except LauncherError as error:
        return _print_error(error)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return _print_error(error)
    return 0


def print_progress(what: str) -> None:
    """Print a line for the one who waits."""
    print(what, file=sys.stderr, flush=True)


def _end_with(lifeline: int) -> None:
    """Kill the process group when the other end of a pipe is closed."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _print_error(error: Exception) -> int:
    name = "" if isinstance(error, LauncherError) else f"{type(error).__name__}: "
    print_progress(f"error: {name}{error}")
    return 1
