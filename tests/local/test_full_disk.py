"""The disk of a local job that its programs have filled: what the platform writes meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_disk import small_disk

from launcher.client.sessions import (
    Isolation,
    JobFolder,
    JobState,
    LineTimeRecorder,
    LineTimes,
    Settings,
    StatusWriter,
    new_description,
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[JobFolder]:
    """The folder of a job on a small file system."""
    request: Any = {"TrainingJobName": "job-1", "ResourceConfig": {}}
    record = new_description(request, arn="arn", isolation="process", now=1.0)
    settings = Settings(isolation=Isolation.PROCESS, boot="boot", stop_grace_seconds=120)
    made = JobFolder(tmp_path / "job-1")
    with small_disk(tmp_path, "1m"):
        made.path.mkdir()
        made.write(request, settings, record)
        yield made


def fill(folder: JobFolder) -> None:
    with (folder.hosts / "filling").open("ab", buffering=0) as file:
        for size in (1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def test_the_description_waits_for_the_last_one_which_has_room(folder: JobFolder) -> None:
    record = StatusWriter(folder)
    fill(folder)
    record.enter(JobState.TRAINING, TrainingStartTime=time.time())
    record.note(["a note"])
    fill(folder)
    assert "TrainingStartTime" not in folder.status()
    record.close(JobState.FAILED, "host algo-1: OSError: No space left on device")
    found = folder.status()
    assert found["FailureReason"] == "host algo-1: OSError: No space left on device"
    assert "TrainingStartTime" in found
    assert found["LocalNotes"] == ["a note"]


def test_the_times_of_lines_wait_for_room(folder: JobFolder) -> None:
    recorder, log = LineTimeRecorder(folder.logs), folder.log("algo-1-5")
    log.write_text("line\n")
    fill(folder)
    with log.open("a") as file:  # in the block that it has
        file.write("line\n")
    recorder.sample(is_final=True)
    assert LineTimes(log).known_bytes == 0
    (folder.hosts / "filling").unlink()
    recorder.sample(is_final=True)
    assert LineTimes(log).known_bytes == log.stat().st_size
