"""The output of `fit` while it follows a job."""

from __future__ import annotations

from launcher.client.jobs.follow import StateChange
from launcher.client.jobs.job import Job
from launcher.client.jobs.log_line import LogLine


def follow(job: Job, *, logs: bool) -> None:
    """Wait until a job has ended; Ctrl-C detaches and prints how to reattach.

    logs: whether to print log lines and states; notices about stalls are always printed.
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
    """Print a notice: the job is silent, the service does not answer, or a retry follows."""
    print(f"({notice})", flush=True)
