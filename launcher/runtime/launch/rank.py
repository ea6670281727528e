"""Run the user's script as one rank: `python -m launcher.runtime.launch.rank SCRIPT ARGUMENT...`.

The script runs as __main__ in the code folder and imports from its own, as under plain Python and
AWS's toolkit. Two things differ: its files cannot hide modules from those who do not mean them, and
a report for the host says how the script ended, since torchrun passes on exit codes only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pkgutil  # noqa: F401 - runpy imports it later, when `types` may mean a file of the user's
import re
import runpy
import sys
import time
import traceback
from bdb import BdbQuit
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NoReturn

from launcher.errors import LauncherError
from launcher.runtime.end import hang_watchdog, stacks
from launcher.runtime.end.peer_loss import is_peer_loss
from launcher.runtime.host.event_log import emit_text
from launcher.runtime.host.no_terminal import hint_of_terminal
from launcher.runtime.host.output import print_to, print_whole_lines, rank_pipe
from launcher.runtime.host.report_files import REPORTS_VARIABLE, write_report
from launcher.runtime.host.start_phase import report_phases
from launcher.runtime.launch import gloo_threads
from launcher.runtime.launch.rank_debugger import PostMortem, is_debugged, start_debugger
from launcher.shared import enter, own_mask, visible_gpus

#: Seconds that this rank may wait in one place for others; 0 disables hang detection.
HANG_VARIABLE = "LAUNCHER_HANG_TIMEOUT"
#: Characters of a cause or a traceback to pass on; a FailureReason has 1,024.
_MAX_LENGTH = 8192


def main() -> int:
    """Run the script named on the command line and return the exit code."""
    script, *arguments = sys.argv[1:]
    folder = str(Path(script).absolute().parent)
    enter(os.environ.get("SM_MODULE_DIR", folder), folder)
    if script.endswith(".sh"):
        _become_shell(script, arguments)
    sys.argv = [script, *arguments]
    return run(lambda: runpy.run_path(script, run_name="__main__"))


def _become_shell(script: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a shell script: of its own interpreter, or else of /bin/sh.

    The host reads the exit code; the script writes no report.
    """
    command = [script, *arguments]
    _print_to_own_pipe()
    with contextlib.suppress(OSError):
        Path(script).chmod(0o755)  # as AWS's toolkit does; archives may lose the mode
    with contextlib.suppress(OSError):  # no "#!" line
        os.execv(script, command)
    os.execv("/bin/sh", ["/bin/sh", *command])


def run(program: Callable[[], object]) -> int:
    """Run this rank's program, report how it ended, and return the exit code."""
    own_mask()  # before the program can remove a secret from its environment
    spare = os.open(os.devnull, os.O_RDONLY)
    _print_to_own_pipe()
    print_whole_lines()
    _enable_monitoring()
    atexit.register(gloo_threads.wait_for_gloo_threads)  # runs after the program's own handlers
    post_mortem: PostMortem | None = None
    try:
        post_mortem = start_debugger() if is_debugged() else None
        program()
    except SystemExit as stop:
        _close(spare)
        if (code := _exit_code(stop)) == 0:
            _report_leaving(f"the script called sys.exit({stop.code or 0!r}){_place(stop)}")
        return code
    except BaseException as error:  # noqa: BLE001 - report any end of the user's program
        _close(spare)  # the report needs one when the program has used up its descriptors
        cause = _error_line(error) + (_hidden_module(error) or hint_of_terminal(error))
        cause += gpu_words(cause)
        report_cause(cause, _detail(error), is_peer_loss=is_peer_loss(error, cause))
        shown = own_mask().text(cause)[:_MAX_LENGTH]
        emit_text("rank_failed", "".join(_format(error)), cause=shown)
        if is_debugged():
            _examine(error, post_mortem)
        # As the interpreter does, for handlers at exit; without the frames and what they hold.
        sys.last_value = error.with_traceback(None)
        return 1
    _report_leaving("the script ended")
    return 0


def _examine(error: BaseException, post_mortem: PostMortem | None) -> None:
    """Show the user the error in their terminal, and let them look at it."""
    if not isinstance(error, BdbQuit):
        sys.stderr.write("".join(_format(error)))
    if post_mortem is not None:
        post_mortem(error, _from_script(error.__traceback__))


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the program has closed all of them
        os.close(descriptor)


def _print_to_own_pipe() -> None:
    """Print to the pipe of this rank, if its host has one, so that ranks' open lines do not mix."""
    folder = os.environ.get(REPORTS_VARIABLE)
    if folder is not None and not is_debugged():
        with contextlib.suppress(OSError):  # not started by a host
            print_to(rank_pipe(Path(folder), int(os.environ.get("LOCAL_RANK", "0"))))


def _enable_monitoring() -> None:
    """Let the host inspect this rank's stacks, and start hang detection."""
    folder = os.environ.get(REPORTS_VARIABLE)
    if folder is None:
        return
    stacks.enable_dumps(Path(folder), _rank())
    if os.environ.get("LOCAL_RANK", "0") == "0":  # the others do the same
        report_phases()
    _report_silent_exits(Path(folder))
    if timeout := float(os.environ.get(HANG_VARIABLE, "0")):
        hang_watchdog.start(timeout, Path(folder), _rank())


def _report_silent_exits(folder: Path) -> None:
    """Report a call of os._exit(0), which the exit code does not tell from a script's own end."""
    own_pid, leave = os.getpid(), os._exit

    def report_and_leave(status: int) -> NoReturn:
        if status == 0 and os.getpid() == own_pid:  # not in a fork, whose end is its own
            frame = sys._getframe(1)
            place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            _write_leaving(folder, f"the script called os._exit(0) ({place})")
        leave(status)

    os._exit = report_and_leave


def _report_leaving(how: str) -> None:
    """Report an end that others fail of if they wait in a collective: they are not told of it."""
    folder, distributed = os.environ.get(REPORTS_VARIABLE), sys.modules.get("torch.distributed")
    if folder and distributed and distributed.is_available() and distributed.is_initialized():
        _write_leaving(Path(folder), how)


def _write_leaving(folder: Path, how: str) -> None:
    with contextlib.suppress(OSError):
        write_report(folder, f"left-{_rank()}", {"rank": _rank(), "how": how})


def _place(error: BaseException) -> str:
    """Return the place in the script where an error was raised, in brackets."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename == sys.argv[0]]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _exit_code(stop: SystemExit) -> int:
    """Return the exit code of sys.exit() as Python does: None is 0; text is printed and gives 1."""
    if stop.code is None or isinstance(stop.code, int):
        code = stop.code or 0
    else:
        sys.stderr.write(f"{stop.code}\n")
        code = 1
    if code and not code & 0xFF:
        code = 1  # the kernel keeps eight bits: sys.exit(os.system(...)) would give 0
    if code:
        report_cause(f"the script called sys.exit({stop.code!r})")
    return code


def _detail(error: BaseException) -> str:
    """Return the useful details: the user's frames here or, for a sample, on the data host."""
    if isinstance(error, LauncherError):
        return str(getattr(error, "remote_traceback", "")) or str(error)
    return "".join(_format(error))


def _error_line(error: BaseException) -> str:
    """Return the line that names the error, without the notes that follow it."""
    summary = traceback.TracebackException(type(error), error, None)
    vars(summary)["__notes__"] = None  # Python >= 3.11
    lines = "".join(summary.format_exception_only()).splitlines()  # a SyntaxError starts indented
    return next((line for line in lines if line[:1].strip()), type(error).__name__)


def _hidden_module(error: BaseException) -> str:
    """Return the words on a file of the user's that an error shows in place of a standard module.

    Only who asks for such a file gets it; then libraries that ask later get it too.
    """
    module = sys.modules.get(str(getattr(error, "name", None)).partition(".")[0])
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        module = error.obj
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    code = os.environ.get("SM_MODULE_DIR")
    if name not in sys.stdlib_module_names or not (file and code and file.startswith(f"{code}/")):
        return ""
    shown = Path(file).relative_to(code)
    return f" ({shown} of your code hides Python's own module {name}: give it another name)"


def _format(error: BaseException) -> list[str]:
    """Format the traceback as the user's own script would print it, without our frames."""
    return traceback.format_exception(type(error), error, _from_script(error.__traceback__))


def _from_script(trace: TracebackType | None) -> TracebackType | None:
    start = trace
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == sys.argv[0]:
            return trace
        trace = trace.tb_next
    return start


def report_cause(cause: str, detail: str = "", *, is_peer_loss: bool | None = None) -> None:
    """Report to the host why this rank ends."""
    folder = os.environ.get(REPORTS_VARIABLE)
    if folder is None:
        return
    report = {
        "rank": _rank(),
        "cause": own_mask().text(cause)[:_MAX_LENGTH],
        "detail": own_mask().text(detail)[-_MAX_LENGTH:],
        "is_peer_loss": is_peer_loss,
        "time": time.time(),
    }
    with contextlib.suppress(OSError):  # a full disk; the host sees the exit code anyway
        write_report(Path(folder), f"rank-{_rank()}", report)


#: What torch, Lightning, Accelerate, JAX and TensorFlow raise there.
_NEEDS_GPU = re.compile(
    r"not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|"
    r"n't have NCCL built in|NCCL is only supported with GPUs|No supported gpu backend|"
    r"CUDA driver version is insufficient|Unable to initialize backend .(?:cuda|gpu)|"
    r"no CUDA-capable device|CUDA is not available|[Nn]o GPUs? (?:was|were) found"
)


def gpu_words(cause: str) -> str:
    """Return what to add to a cause that a missing GPU explains; empty for any other."""
    if not _NEEDS_GPU.search(cause):
        return ""
    if visible_gpus(os.environ):
        return " (this machine has a GPU that this environment cannot use)"
    return " (this machine has no GPU)"


if __name__ == "__main__":
    sys.exit(main())
