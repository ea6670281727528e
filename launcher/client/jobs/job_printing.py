"""Print a job's lines, states and notices while it is followed; notebooks show its state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.event_sentences import sentence
from launcher.errors import LauncherError
from launcher.shared.terminal_text import printable

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.job_follower import StateChange
    from launcher.client.jobs.log_line import LogLine

#: SDK v2's values of `logs`, and whether they print. It prints its rules' states in any case.
_PRINTS = {"All": True, "Training": True, "Rules": False, "None": False}


def prints_logs(logs: bool | str | None) -> bool:
    """Return whether SDK v2's `logs` asks for the lines of all hosts.

    Raises LauncherError for an unknown value.
    """
    if not isinstance(logs, str):
        return bool(logs)
    if logs not in _PRINTS:
        names = ", ".join(f'"{name}"' for name in _PRINTS)
        raise LauncherError(f'logs="{logs}" is unknown: write True, False, or one of {names}')
    return _PRINTS[logs]


def follow_and_print(job: Job, *, logs: bool) -> None:
    """Wait until a job has ended; Ctrl-C detaches and prints how to reattach.

    logs: whether to print log lines and states; notices about stalls are always printed. In a
    notebook, states are shown in an output of their own.
    """
    show = _notebook_output()
    try:
        if show is None:
            _follow_by_lines(job, logs=logs)
        else:
            _follow_in_notebook(job, show, logs=logs)
    except KeyboardInterrupt:
        print(
            f"\nDetached; job {job.name} continues. latest_training_job.wait() follows it again; "
            "latest_training_job.stop() stops it.",
            flush=True,
        )
        raise


def _notebook_output() -> Callable[[str], None] | None:
    """Return what shows HTML in an output of the running cell, in place; None outside notebooks."""
    ipython: Any = sys.modules.get("IPython")  # a notebook has imported it
    shell = ipython and ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return lambda text: handle.update(HTML(text))


def _follow_by_lines(job: Job, *, logs: bool) -> None:
    if logs:
        print(f"Job {job.name}", flush=True)
    job.wait(
        logs=print_line if logs else None,
        states=print_state if logs else None,
        notices=print_notice,
    )


def _follow_in_notebook(job: Job, show: Callable[[str], None], *, logs: bool) -> None:
    from launcher.client.jobs.live_cell import LiveCell  # only notebooks need it

    cell = LiveCell(job, show, print_notice)

    def take(line: LogLine) -> None:
        cell.take(line)
        if logs:
            print_line(line)

    job.wait(take, notices=print_notice, polls=cell.update, metrics=cell.add)
    cell.close()


def print_line(line: LogLine) -> None:
    """Print a line of a host, with its group and host; of an event only what a user should see."""
    event = line.event
    text = line.readable if event is None else sentence(*event)
    if text is not None and not line.belongs_to_event:  # the exception has the traceback
        print(printable(f"{line.group}/{line.host} | {text}"), flush=True)


def print_state(state: StateChange) -> None:
    """Print a change of the job's state."""
    print(printable(str(state)), flush=True)


def print_notice(notice: str) -> None:
    """Print a notice: the job is silent, the service does not answer, or a retry follows."""
    print(printable(f"({notice})"), flush=True)
