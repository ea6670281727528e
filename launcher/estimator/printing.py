"""What `fit` prints while it follows a job."""

from __future__ import annotations

from launcher.following.lines import LogLine
from launcher.following.watch import StateChange
from launcher.job import Job


def follow(job: Job, *, logs: bool) -> None:
    """Return when a job has ended; Ctrl-C leaves it, and says how to come back.

    logs: whether its lines and states are printed; that nothing happens is said in any case.
    """
    if logs:
        print(f"Job {job.name}", flush=True)
    try:
        job.wait(
            logs=_print_line if logs else None,
            states=_print_state if logs else None,
            notices=print_notice,
        )
    except KeyboardInterrupt:
        print(
            f"\nDetached; job {job.name} goes on. latest_training_job.wait() comes back to it, and "
            "latest_training_job.stop() ends it.",
            flush=True,
        )
        raise


def _print_line(line: LogLine) -> None:
    print(f"{line.group}/{line.host} | {line.readable}", flush=True)


def _print_state(state: StateChange) -> None:
    print(state, flush=True)


def print_notice(notice: str) -> None:
    """Say that nothing happens, that nobody answers, or what is tried next."""
    print(f"({notice})", flush=True)
