"""How the dispatcher gives its numbers away: lines in the log, and Prometheus' form on request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from launcher.data.figures import verdict
from launcher.data.figures.metrics import Snapshot
from launcher.data.figures.observed import observe
from launcher.data.figures.prometheus import render
from launcher.data.figures.scrape import Scrape
from launcher.runtime.events import emit

#: Seconds between the data_metrics lines of a running job.
INTERVAL = 30.0


class Publisher:
    """Takes snapshots and publishes them.

    group: that prepares data. address: where the numbers are served; None for nowhere.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], *, group: str, address: tuple[str, int] | None
    ) -> None:
        self._snapshot = snapshot
        self._group = group
        self._address = address

    async def run(self) -> None:
        """Publish until cancelled, which is followed by the last words."""
        scrape = Scrape(lambda: render(self._snapshot()))
        serving = asyncio.create_task(scrape.serve(self._address)) if self._address else None
        try:
            while True:
                await asyncio.sleep(INTERVAL)
                self._print(self._snapshot(), final=False)
        finally:
            if serving is not None:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving

    def last_words(self) -> None:
        """The totals, and the verdict where there was enough to judge by."""
        snapshot = self._snapshot()
        self._print(snapshot, final=True)
        if (seen := observe(snapshot)) is not None:
            emit("data_verdict", **verdict.judge(seen, self._group).fields())

    @staticmethod
    def _print(snapshot: Snapshot, *, final: bool) -> None:
        for fields in snapshot.event_fields():
            emit("data_metrics", **fields, final=final)
