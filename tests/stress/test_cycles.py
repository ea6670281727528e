"""Fifty jobs that are started, stopped, killed and interrupted leave nothing on the machine."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from crowd import FOR_EVER, Crowd, wait_for_epoch
from leftovers import inventory, newly
from waiting import wait_until

from launcher.client.jobs import Job
from launcher.client.sessions import Isolation, choose_isolation
from launcher.errors import PlatformError

CYCLES = 50


def _works(isolation: Isolation) -> bool:
    try:
        choose_isolation(isolation.value)
    except PlatformError:
        return False
    return True


def complete(crowd: Crowd, job: Job) -> str:
    return "Completed"


def stop_at_once(crowd: Crowd, job: Job) -> str:
    job.stop()
    return "Stopped"


def stop(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    job.stop()
    return "Stopped"


def kill_a_worker_and_stop(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    kill(job, crowd, "launcher.data.worker")
    job.stop()
    return "Stopped"


def kill_a_rank(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    kill(job, crowd, "launcher.runtime.launch.rank")
    return "Failed"


def kill_a_host(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    kill(job, crowd, "launch.py")
    return "Failed"


def kill_the_platform(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    kill(job, crowd, "launcher.client.sessions.local.job.platform_process")
    return "Failed"


def interrupt_and_stop(crowd: Crowd, job: Job) -> str:
    wait_for_epoch(job)
    crowd.session().interrupt_training_job(TrainingJobName=job.name)
    wait_until(lambda: len(job.session.log_streams(job.name)) == 4)
    job.stop()
    return "Stopped"


def kill(job: Job, crowd: Crowd, part: str) -> None:
    """SIGKILL to a job's processes whose command has `part` in it."""
    folder = str(crowd.folder(job)).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        is_wrapper = command.split(b"\0")[0].endswith((b"bwrap", b"unshare", b"nsenter"))
        if folder in command + variables and part.encode() in command and not is_wrapper:
            os.kill(int(entry.name), signal.SIGKILL)


ENDINGS: tuple[Callable[[Crowd, Job], str], ...] = (
    complete,
    stop_at_once,
    stop,
    kill_a_worker_and_stop,
    kill_a_rank,
    kill_a_host,
    kill_the_platform,
    interrupt_and_stop,
)


@pytest.fixture
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scratch folders go to a place of their own, with a short name as they need, not tmp_path."""
    with tempfile.TemporaryDirectory(prefix="cycles-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield


@pytest.mark.long
@pytest.mark.usefixtures("own_temporary_folder")
@pytest.mark.parametrize(
    "cycles",
    [
        pytest.param(4, id="a few"),
        # Alone on its machine: the ports and sockets of other jobs would be taken for its own.
        pytest.param(
            CYCLES,
            id="fifty",
            marks=[pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(1200)],
        ),
    ],
)
def test_cycles_of_starts_and_ends_leave_nothing(tmp_path: Path, cycles: int) -> None:
    crowd = Crowd(tmp_path)
    look = partial(inventory, crowd.home, of_the_machine=cycles == CYCLES)
    isolations = [isolation for isolation in Isolation if _works(isolation)]
    plan = itertools.islice(
        ((ending, isolation) for isolation in itertools.cycle(isolations) for ending in ENDINGS),
        cycles,
    )
    before = look()
    for number, (end, isolation) in enumerate(plan):
        epochs = 1 if end is complete else FOR_EVER
        job = crowd.start(f"job-{number}", epochs=epochs, isolation=isolation.value)
        expected = end(crowd, job)
        assert job.wait().status == expected, (end.__name__, isolation, job.summary())
    try:
        wait_until(lambda: not newly(look(), before))
    except AssertionError:
        pytest.fail(f"left behind: {newly(look(), before)}")
