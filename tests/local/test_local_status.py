"""The description of a local job while it runs: its messages and notes, from several threads."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from typing import Any

import pytest

from launcher.client.sessions import S3Process, StatusWriter
from launcher.client.sessions.local.job import job_description


class Folder:
    """A job's folder in memory."""

    name = "job"

    def __init__(self) -> None:
        states = [{"Status": "Training", "StatusMessage": ""}]
        self.written: dict[str, Any] = {"LocalNotes": [], "SecondaryStatusTransitions": states}

    def status(self) -> dict[str, Any]:
        return self.written

    def write_status(self, document: dict[str, Any]) -> None:
        self.written = document


def test_a_note_of_one_thread_survives_the_message_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder: Any = Folder()
    writer = StatusWriter(folder)
    noting = threading.Thread(target=writer.note, args=(["a note"],))
    with_message = job_description.with_message

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        noting.start()
        noting.join(0.2)  # it may have to wait for us
        return with_message(*arguments, **options)

    monkeypatch.setattr(job_description, "with_message", meanwhile)
    writer.set_message("a message")
    noting.join()
    assert folder.written["LocalNotes"] == ["a note"]
    assert folder.written["SecondaryStatusTransitions"][-1]["StatusMessage"] == "a message"


def test_the_progress_of_an_upload_is_not_told_as_that_of_a_download() -> None:
    near, far = Pipe()

    def serve() -> None:
        for _ in range(2):
            name, _arguments = far.recv()
            far.send(("progress", len(name)))
            far.send(("done", None))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    s3_process, told = S3Process(near), []
    s3_process.fetch({}, told.append)
    s3_process.store({})
    thread.join()
    s3_process.close()
    far.close()
    assert told == [len("fetch")]
