"""What a rank says of the batches that it has taken, and when."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from clocks import stopped

from launcher.data import service
from launcher.data.batches import structure, wire
from launcher.data.control import messages as m
from launcher.data.memory import SlabPool
from launcher.data.order import BatchPlan, StreamSpec
from launcher.data.receiver import LocalPeer

_PLAN = BatchPlan(spec=StreamSpec(name="x", dataset="p:x", batch_size=None), length=1000, epoch=0)


class Receiver:
    """This host's receiver, as a rank sees it, and the rank, step by step.

    sees: whether it looks at the slabs' marks, as it does when other batches come.
    """

    def __init__(self, clock: SimpleNamespace, *, sees: bool) -> None:
        self._clock = clock
        self._sees = sees
        with socket.socket(socket.AF_UNIX) as listener:
            name = f"takings-{id(self)}"
            listener.bind(f"\0{name}")
            listener.listen()
            self._source = source = service.ServiceSource(name)
            self._connection, _ = listener.accept()
        source.prepare(_PLAN)
        (opened,) = self._words()
        assert isinstance(opened, m.OpenRun)
        self._run = opened.run
        self.batches = source.batches(_PLAN)
        self._neighbour = LocalPeer(self._connection)
        self._pool = SlabPool(1 << 30, retire=lambda _: None)
        self._lent: dict[int, int] = {}  # descriptors of slabs, by number
        self._steps = 0

    def gives(self, count: int, seconds: float) -> list[list[int]]:
        """Let the rank take batches, each so long after the one before; the steps it says then."""
        for _ in range(count):
            self._show()
            self._clock.now += seconds
            next(self.batches)
        return [word.steps for word in self._words() if isinstance(word, m.Consumed)]

    def ends(self) -> list[list[int]]:
        """Let the rank stop reading; the steps it says then."""
        self.batches.close()
        return [word.steps for word in self._words() if isinstance(word, m.Consumed)]

    def close(self) -> None:
        self.batches.close()
        self._source._client.close()
        self._connection.close()
        for descriptor in self._lent.values():
            os.close(descriptor)

    def _show(self) -> None:
        parts = structure.disassemble(np.arange(3))
        frame = wire.WireFrame.pack(self._run, self._steps, "worker", *parts)
        if self._sees:
            self._neighbour.poll_marks()
        slab = self._pool.take(frame.header.payload_bytes)
        self._lent[slab.number] = slab.descriptor
        frame.copy_to(np.frombuffer(slab.memory, np.uint8))
        new = self._neighbour.lend(slab, self._run, self._steps)
        size, content = frame.header.total_bytes, frame.header.content_bytes
        batch = m.Batch(self._run, self._steps, slab.number, size, new, content)
        self._neighbour.deliver([(batch, slab)])
        self._steps += 1

    def _words(self) -> Iterator[m.Message]:
        data = b""
        with contextlib.suppress(BlockingIOError):
            while piece := self._connection.recv(1 << 16, socket.MSG_DONTWAIT):
                data += piece
        return map(m.from_line, data.splitlines())


@pytest.fixture
def receiver_of() -> Iterator[Callable[..., Receiver]]:
    """Make receivers, which are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **how: stack.enter_context(contextlib.closing(Receiver(*args, **how)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time as the rank reads it, which stands still otherwise."""
    return stopped(monkeypatch, service)


def test_no_message_is_sent_for_quick_batches_that_the_receiver_sees(
    receiver_of: Callable[..., Receiver], clock: SimpleNamespace
) -> None:
    receiver = receiver_of(clock, sees=True)
    receiver.gives(1, 0.001)
    assert receiver.gives(300, 0.001) == []
    assert receiver.ends()[-1][-1] == 300  # the last one, which it may not have seen


def test_every_batch_is_reported_to_a_receiver_that_does_not_poll(
    receiver_of: Callable[..., Receiver], clock: SimpleNamespace
) -> None:
    receiver = receiver_of(clock, sees=False)
    said = receiver.gives(101, 0.001) + receiver.ends()
    assert [step for steps in said for step in steps] == list(range(101))
    assert 4 <= len(said) <= 8


def test_each_slow_batch_is_reported_at_once(
    receiver_of: Callable[..., Receiver], clock: SimpleNamespace
) -> None:
    """There may be memory for few, and nothing comes while the script computes."""
    receiver = receiver_of(clock, sees=True)
    slow = 2 * service._REPORT_EVERY
    assert receiver.gives(5, slow) == [[step] for step in range(5)]
    receiver.gives(100, 0.001)
    *_, last = receiver.gives(2, slow)
    assert last[-1] == 106
