"""When a rank that makes no progress counts as hung, and when it is not."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from waiting import wait_until

from launcher.data import ServiceSource, service
from launcher.data.order import ResumePoint, StreamSpec, make_plan
from launcher.errors import DataServiceUnavailable
from launcher.runtime import HangWatchdog

COLLECTIVE = "/site-packages/torch/distributed/distributed_c10d.py"
BACKWARD = "/site-packages/torch/autograd/graph.py"


@pytest.fixture(scope="module")
def process_group() -> Iterator[None]:
    """A real process group, of this process alone."""
    distributed = pytest.importorskip("torch.distributed")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def other_ranks(monkeypatch: pytest.MonkeyPatch, process_group: None) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")


@contextmanager
def stopped_in(file: str, function: str = "wait") -> Iterator[FrameType]:
    """The frame of a thread that really stands in a function of such a file."""
    inside: list[FrameType] = []
    arrived, go = threading.Event(), threading.Event()

    def hold() -> None:
        inside.append(sys._getframe(1))
        arrived.set()
        go.wait()

    names: dict[str, Any] = {}
    exec(compile(f"def {function}(hold):\n    hold()\n", file, "exec"), names)
    thread = threading.Thread(target=names[function], args=(hold,))
    thread.start()
    arrived.wait()
    try:
        yield inside[0]
    finally:
        go.set()
        thread.join()


def checks(frame: Callable[[], FrameType | None], *, cpu: float = 0.0) -> list[bool]:
    """What a watch of 10 s reports at 0, 4, 8 and 12 s; cpu: its load."""
    watch = HangWatchdog(10.0, frame)
    return [watch.check(now, cpu * now) for now in (0.0, 4.0, 8.0, 12.0)]


def test_the_same_wait_for_the_whole_timeout_is_a_hang() -> None:
    with stopped_in(COLLECTIVE, "all_reduce") as frame:
        assert checks(lambda: frame) == [False, False, False, True]


def test_a_rank_that_still_imports_torch_has_joined_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", ModuleType("torch.distributed"))
    with stopped_in(COLLECTIVE, "all_reduce") as frame:
        assert checks(lambda: frame) == [False, False, False, False]


def test_the_time_in_which_the_whole_rank_was_frozen_does_not_count() -> None:
    with stopped_in(COLLECTIVE, "all_reduce") as frame:
        watch = HangWatchdog(10.0, lambda: frame)
        assert [watch.check(now, 0.0) for now in (0.0, 1.0, 100.0, 103.0)] == [False] * 4
        assert watch.check(105.0, 0.0), "1 s before, 5 s for the gap, 5 s after"


def test_another_call_of_the_same_function_is_progress() -> None:
    with stopped_in(COLLECTIVE) as one, stopped_in(COLLECTIVE) as two:
        assert one.f_code.co_name == two.f_code.co_name
        turns = itertools.cycle([one, two])
        assert checks(lambda: next(turns)) == [False] * 4


def test_a_users_script_may_make_no_progress() -> None:
    with stopped_in("/opt/ml/code/train.py") as frame:
        assert checks(lambda: frame) == [False] * 4


@pytest.mark.parametrize(
    ("line", "hangs"),
    [("work.wait()", True), ("loss.item()", True), ("compute(batch)", False)],
    ids=["a handle", "the GPU", "neither"],
)
def test_a_wait_in_c_has_no_frame_but_a_line(tmp_path: Path, line: str, hangs: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"def step():\n    {line}\n")
    with stopped_in(str(script), "step") as frame:
        assert checks(lambda: frame)[-1] is hangs


def test_a_job_of_one_rank_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with stopped_in(COLLECTIVE) as frame:
        assert checks(lambda: frame) == [False] * 4


@pytest.mark.parametrize(("cpu", "hangs"), [(0.0, True), (0.9, False)], ids=["waits", "computes"])
def test_a_backward_pass_hangs_only_when_it_does_not_compute(cpu: float, hangs: bool) -> None:
    with stopped_in(BACKWARD, "_engine_run_backward") as frame:
        assert checks(lambda: frame, cpu=cpu)[-1] is hangs


def _read(receiver: str) -> None:
    source = ServiceSource(receiver)
    with contextlib.suppress(DataServiceUnavailable):
        next(
            source.batches(
                make_plan(
                    StreamSpec(name="a", dataset="a:b"), 8, ResumePoint(epoch=0), rank=0, world=1
                )
            )
        )


def _describe(receiver: str) -> None:
    source = ServiceSource(receiver)
    with contextlib.suppress(DataServiceUnavailable):
        source.describe("a:b")


def _connect(receiver: str) -> None:
    with contextlib.suppress(DataServiceUnavailable):
        ServiceSource(f"{receiver}-elsewhere")


@pytest.mark.parametrize(
    ("wait", "hangs"),
    [(_read, True), (_describe, False), (_connect, False)],
    ids=["a batch", "what a dataset is", "the receiver"],
)
def test_the_first_word_of_the_data_service_may_take_as_long_as_hosts_start_apart(
    wait: Callable[[str], None], hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_RECEIVER_START_TIMEOUT", 1.0)
    name = f"launcher-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as receiver:  # that hears, and says nothing
        receiver.bind(f"\0{name}")
        receiver.listen()
        thread = threading.Thread(target=wait, args=(name,))
        thread.start()

        def frame() -> FrameType | None:
            return sys._current_frames().get(thread.ident or 0)

        def is_there() -> bool:
            here = frame()
            return here is not None and here.f_code.co_name in ("receive", "_read_more", "backoff")

        wait_until(is_there)
        here = frame()
        assert checks(lambda: here)[-1] is hangs
    thread.join()


def test_a_thread_that_has_ended_does_not_hang() -> None:
    assert checks(lambda: None) == [False] * 4
