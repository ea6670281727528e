"""How someone of a job is hurt: each runs the job up to the injury, and cleans up after its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from endings_remains import processes_of
from endings_stage import Stage, memory_limit
from small_disk import small_disk
from waiting import wait_until

MEMORY_LIMIT = 128 << 20


@contextmanager
def misbehaving(stage: Stage, cause: str, who: str, **options: object) -> Iterator[None]:
    """The program itself does it, in one of its processes."""
    stage.start(CAUSE=cause, WHO=who, **options)
    stage.wait_for_line(f"misbehaves: {who}")
    yield


@contextmanager
def signalled(stage: Stage, number: signal.Signals, who: str) -> Iterator[None]:
    stage.start()
    stage.wait_for_training()
    stage.kill(who, number)
    yield


@contextmanager
def signalled_and_over(stage: Stage, number: signal.Signals, who: str) -> Iterator[None]:
    """As `signalled`, for what the job is to survive: then training may end."""
    with signalled(stage, number, who):
        if who == "worker":  # which finishes its batch at SIGTERM
            drained = number is signal.SIGTERM
            stage.wait_for_line("worker_drained" if drained else "worker_died")
        stage.signal("go")
        yield


@contextmanager
def tolerated(stage: Stage, number: signal.Signals, who: str) -> Iterator[None]:
    stage.host_failure = "tolerate"
    with signalled(stage, number, who):
        wait_until(lambda: stage.job.description()["LocalNotes"], what="a note of the lost host")
        stage.signal("go")
        yield


@contextmanager
def out_of_memory(stage: Stage, who: str) -> Iterator[None]:
    """The kernel kills the process, because its memory limit is reached."""
    stage.start(CAUSE="memory limit", WHO=who)
    stage.wait_for_line(f"misbehaves: {who}")
    with memory_limit(stage.pid_of(who, "misbehaves"), MEMORY_LIMIT):
        stage.signal("allocate")
        if who == "worker":
            stage.wait_for_line("worker_died")
            stage.signal("go")
        yield


@contextmanager
def on_a_full_disk(stage: Stage, who: str) -> Iterator[None]:
    """A rank fills the disk that has everything: /opt/ml, the logs, the job's own description."""
    with small_disk(stage.home, "24m"), misbehaving(stage, "disk full", who):
        yield


@contextmanager
def with_a_full_output(stage: Stage) -> Iterator[None]:
    with small_disk(stage.folder / "small", "1m") as small:
        stage.output = small
        stage.start()
        stage.wait_for_training()
        stage.signal("go")
        yield


@contextmanager
def frozen(stage: Stage, who: str) -> Iterator[None]:
    """A host's first process is stopped and never goes on; MaxRuntimeInSeconds ends the job."""
    stage.max_run = 30
    with signalled(stage, signal.SIGSTOP, who):
        stage.signal("go")
        yield


@contextmanager
def frozen_for_a_while(stage: Stage) -> Iterator[None]:
    """The platform process is stopped while its hosts end, and goes on after that."""
    with signalled(stage, signal.SIGSTOP, "launcher"):
        stage.signal("go")
        wait_until(lambda: not processes_of(stage.job_folder), what="the hosts to end")
        stage.kill("launcher", signal.SIGCONT)
        yield
