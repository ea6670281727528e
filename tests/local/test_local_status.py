"""The description of a local job while it runs: its messages and notes, from several threads."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

from launcher.client.sessions.local.s3_process import S3Process


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
