"""Python does not end under gloo's threads. Those here are Python's own, by the name of gloo's."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.runtime import native

_GLOO = "pt_gloo_runloop"


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


def compute(rounds: int = 500_000) -> None:
    """Without Python's lock."""
    hashlib.pbkdf2_hmac("sha512", b"word", b"salt", rounds)


def compute_on(over: threading.Event) -> None:
    while not over.is_set():
        compute(10_000)


def test_who_computes_is_waited_for() -> None:
    with thread(_GLOO, lambda _: compute()) as working:
        native.settle()
        assert not working.is_alive()


def test_who_waits_for_work_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    with thread(_GLOO, lambda over: over.wait()) as waiting:
        while list(native._states(Path("/proc/self/task"))) != ["S"]:
            time.sleep(0.01)
        monkeypatch.setattr(native.time, "sleep", slept.append)
        native.settle()
        assert waiting.is_alive()
    assert len(slept) == native._LOOKS


def test_other_threads_are_not_looked_at() -> None:
    with thread("pt_other", compute_on) as working:
        native.settle()
        assert working.is_alive()


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_PATIENCE", 0.05)
    with thread(_GLOO, compute_on) as working:
        native.settle()
        assert working.is_alive()


def test_a_system_without_proc_is_left_at_once(tmp_path: Path) -> None:
    native.settle(tmp_path / "missing")


def test_gloo_names_its_threads_so() -> None:
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.barrier()
        assert list(native._states(Path("/proc/self/task")))
    finally:
        dist.destroy_process_group()
