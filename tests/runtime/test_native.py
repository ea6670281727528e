"""Python does not end under gloo's threads. Those here are Python's own, by the name of gloo's."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.runtime import gloo_threads

_GLOO = "pt_gloo_runloop"
_TRAIN = f"""
import hashlib, os, threading

def run():
    open(f"/proc/self/task/{{threading.get_native_id()}}/comm", "w").write("{_GLOO}")
    started.set()
    hashlib.pbkdf2_hmac("sha512", b"word", b"salt", 150_000)
    os.write(1, b"the thread ends\\n")

started = threading.Event()
threading.Thread(target=run, daemon=True).start()
started.wait()
print("the script ends", flush=True)
"""


@contextmanager
def thread(name: str, work: Callable[[threading.Event], object]) -> Iterator[threading.Thread]:
    """One that the kernel knows by this name, at work until its event is set."""
    started, over = threading.Event(), threading.Event()

    def run() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        started.set()
        work(over)

    made = threading.Thread(target=run)
    made.start()
    started.wait()
    try:
        yield made
    finally:
        over.set()
        made.join()


def compute(rounds: int = 150_000) -> None:
    """Without Python's lock."""
    hashlib.pbkdf2_hmac("sha512", b"word", b"salt", rounds)


def compute_on(over: threading.Event) -> None:
    while not over.is_set():
        compute(10_000)


def test_who_computes_is_waited_for() -> None:
    with thread(_GLOO, lambda _: compute()) as working:
        gloo_threads.wait_for_gloo_threads()
        assert not working.is_alive()


def test_who_waits_for_work_is_not_waited_for() -> None:
    with thread(_GLOO, lambda over: over.wait()) as waiting:
        gloo_threads.wait_for_gloo_threads()
        assert waiting.is_alive()


def test_who_wakes_up_again_and_again_is_waited_for() -> None:
    """As who waits for Python's lock, which another thread has; it sleeps at most looks."""
    with thread(_GLOO, lambda _: [time.sleep(0.005) for _ in range(60)]) as working:
        gloo_threads.wait_for_gloo_threads()
        assert not working.is_alive()


def test_other_threads_are_not_looked_at() -> None:
    with thread("pt_other", compute_on) as working:
        gloo_threads.wait_for_gloo_threads()
        assert working.is_alive()


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gloo_threads, "_TIMEOUT", 0.05)
    with thread(_GLOO, compute_on) as working:
        gloo_threads.wait_for_gloo_threads()
        assert working.is_alive()


def test_a_rank_ends_after_them(tmp_path: Path) -> None:
    """A daemon thread ends with Python, if that does not wait for it."""
    script = tmp_path / "train.py"
    script.write_text(_TRAIN)
    ended = subprocess.run(
        [sys.executable, "-m", "launcher.runtime.launch.rank", str(script)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert (ended.returncode, ended.stdout) == (0, "the script ends\nthe thread ends\n"), ended


def test_a_system_without_proc_is_left_at_once(tmp_path: Path) -> None:
    gloo_threads.wait_for_gloo_threads(tmp_path / "missing")


def test_gloo_names_its_threads_so() -> None:
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.barrier()
        assert list(gloo_threads._activity(Path("/proc/self/task")))
        begin = time.monotonic()
        gloo_threads.wait_for_gloo_threads()
        assert time.monotonic() - begin < gloo_threads._TIMEOUT / 2, "idle threads were waited for"
    finally:
        dist.destroy_process_group()
