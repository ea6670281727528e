"""A worker's signs of life."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

from waiting import wait_until

from launcher.data.control import messages as m
from launcher.data.worker.holdings import Holdings
from launcher.data.worker.worker import Worker


def test_one_beat_tells_all_the_news_since_the_one_before() -> None:
    """A fast worker has news with each batch: they must not pile up, nor each be told alone."""
    said: list[m.Message] = []
    worker = SimpleNamespace(
        _control=SimpleNamespace(say=said.append),
        _holdings=Holdings("algo-1/0/1", 1),
        _wake=queue.SimpleQueue(),
        _leaving=False,
    )
    for _ in range(1000):
        worker._wake.put(None)
    threading.Thread(target=Worker._beat, args=(worker,), daemon=True).start()
    wait_until(lambda: len(said) >= 3)
    assert worker._wake.empty()
