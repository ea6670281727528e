"""Real throttling of running jobs: CPU quotas, stopped processes, and a slow storage."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from launcher.shared import read_process_file

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 50_000
#: Seconds of one turn of a paused process.
_TURN = 0.1


def can_limit_cpu() -> bool:
    """Whether this user may make a group of processes with a quota (cgroup v1 or v2)."""
    try:
        with _quota(1.0):
            return True
    except OSError:
        return False


@contextmanager
def _quota(share: float) -> Iterator[Path]:
    is_first = (_CGROUPS / "cpu").is_dir()
    folder = (_CGROUPS / "cpu" if is_first else _CGROUPS) / f"planted-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    try:
        quota = max(1000, round(share * _PERIOD_MICROSECONDS))
        if is_first:
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")
        yield folder
    finally:
        _leave(folder)


def _leave(folder: Path) -> None:
    """Move what still runs to the group above, and remove the group."""
    above = folder.parent / "cgroup.procs"
    deadline = time.monotonic() + 10
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                above.write_text(pid)
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


@contextmanager
def limited_cpu(processes: Callable[[], list[int]], share: float) -> Iterator[None]:
    """Processes, and those that they start, share a part of one CPU."""
    with _quota(share) as folder:
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))
        yield


@contextmanager
def paused(processes: Callable[[], list[int]], share: float) -> Iterator[None]:
    """Processes are stopped for a share of each turn, all at once."""
    is_over = threading.Event()
    pids = processes()

    def tell(number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause() -> None:
        while not is_over.wait((1 - share) * _TURN):
            tell(signal.SIGSTOP)
            is_over.wait(share * _TURN)
            tell(signal.SIGCONT)
            if not any(read_process_file(pid, "stat") for pid in pids):
                return

    thread = threading.Thread(target=pause)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        tell(signal.SIGCONT)


@contextmanager
def slow_storage(latency: float, megabytes: float, size: int) -> Iterator[str]:
    """The address of an HTTP server whose files of `size` bytes take a time, and share a rate."""
    wire = threading.Lock()
    content = bytes(size)

    class Storage(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            time.sleep(latency)
            with wire:
                time.sleep(size / (megabytes * 1e6))
            with contextlib.suppress(ConnectionError):  # the job is over
                self.send_response(200)
                self.send_header("Content-Length", str(size))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Readers may leave at any time."""

    with Server(("127.0.0.1", 0), Storage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
