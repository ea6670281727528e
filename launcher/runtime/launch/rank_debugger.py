"""The debugger of a rank that runs in the user's terminal (`launcher run --debug`).

pdb opens at a breakpoint(), at Ctrl-C, and at the exception that ends the script. debugpy waits
for an editor, which then does all of this.
"""

from __future__ import annotations

import os
import signal
import sys
from bdb import BdbQuit
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

from launcher.errors import LauncherError
from launcher.shared import DEBUG_VARIABLE

#: Called with the error that ends the script, and the traceback from the script on.
PostMortem = Callable[[BaseException, TracebackType | None], None]
_DEBUGPY = "debugpy:"
_ADDRESS = "127.0.0.1"


def is_debugged() -> bool:
    """Return whether this process, or one that started it, runs in the user's terminal."""
    return DEBUG_VARIABLE in os.environ


def start_debugger() -> PostMortem:
    """Start the debugger of this rank; return what examines the error that ends it.

    Raises LauncherError where debugpy is not installed.
    """
    debugger = os.environ[DEBUG_VARIABLE]
    if debugger.startswith(_DEBUGPY):
        _wait_for_editor(int(debugger.removeprefix(_DEBUGPY)))
        return lambda error, trace: None  # the editor has stopped there, if the user asked it to
    signal.signal(signal.SIGINT, _stop_here)
    return _examine


def _examine(error: BaseException, trace: TracebackType | None) -> None:
    """Open pdb where an error was raised: in the dataset, for one that a loader has passed on."""
    import pdb

    if isinstance(error, BdbQuit):
        return
    while isinstance(error, LauncherError) and error.__cause__ is not None:
        error = error.__cause__
        trace = error.__traceback__
    if trace is not None:
        print("launcher: pdb at the exception; u and d move between frames, q ends", flush=True)
        pdb.post_mortem(trace)


def _stop_here(_number: int, frame: FrameType | None) -> None:
    """Open pdb at the line that Ctrl-C has interrupted; at pdb's own prompt, cancel the command."""
    import pdb

    if any(each.f_globals.get("__name__") == pdb.__name__ for each in _callers(frame)):
        raise KeyboardInterrupt
    print("\nlauncher: Ctrl-C; c continues, q ends", flush=True)
    pdb.Pdb().set_trace(frame)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _wait_for_editor(port: int) -> None:
    try:
        import debugpy
    except ImportError:
        what = f"--debugpy needs the package debugpy, which {sys.executable} does not have"
        raise LauncherError(f"{what}: pip install debugpy, or run it with --debug") from None
    debugpy.listen((_ADDRESS, port))
    sys.breakpointhook = debugpy.breakpoint
    code = os.environ.get("SM_MODULE_DIR", ".")
    print(
        f"launcher: debugpy waits at {_ADDRESS}:{port} for an editor, in which the folder of "
        f"your source is {code} (VS Code: pathMappings)",
        flush=True,
    )
    debugpy.wait_for_client()
