"""Stopped processes (SIGSTOP) that Launcher started are named by their host, and no others."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from launcher.runtime import StoppedProcesses
from launcher.shared import EVENTS_VARIABLE, parse_event

Start = Callable[..., int]

#: Modules of the processes that hosts start.
MODULES = (
    "launcher.data.dispatcher",
    "launcher.data.receiver",
    "launcher.data.worker",
    "launcher.data.tf.servers",
    "launcher.runtime.launch.rank",
    "launcher.runtime.mpi.mpi_rank",
    "launcher.runtime.script_mode.mpi_start",
    "launcher.runtime.tensorflow.tf_server",
    "launcher.trainers",
)
#: Seconds within which the docs promise that a stopped process is named.
PROMISED = 7.0


@pytest.fixture
def start_stopped() -> Iterator[Start]:
    """Start a process that stops itself, with more words in its command line."""
    started = []

    def start(*words: str) -> int:
        child = subprocess.Popen(["sh", "-c", "kill -STOP $$; :", *words])
        started.append(child)
        wait_until(lambda: Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "T")
        return child.pid

    yield start
    for child in started:
        child.kill()
        child.wait()


def test_stopped_processes_of_every_kind_are_named_and_the_users_own_are_not(
    start_stopped: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events"
    events.touch()
    monkeypatch.setenv(EVENTS_VARIABLE, str(events))
    ours = {start_stopped("-m", module, "0"): module for module in MODULES}
    users = [start_stopped("-m", "launchers.rank", "0"), start_stopped("train.py", "launcher.data")]
    stopped, begin = StoppedProcesses(), time.monotonic()

    def named() -> dict[object, object]:
        stopped.check()
        parsed = filter(None, map(parse_event, events.read_text().splitlines()))
        return {each["pid"]: each["process"] for name, each in parsed if name == "process_stopped"}

    wait_until(lambda: len(named()) >= len(ours))
    assert time.monotonic() - begin <= PROMISED
    assert named() == ours
    assert not set(users) & named().keys()
