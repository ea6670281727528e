"""Publishing the dispatcher's metrics: periodic log events, and Prometheus' format over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from launcher.data.metrics import bottleneck
from launcher.data.metrics.metrics_file import Snapshot
from launcher.data.metrics.observed import observe
from launcher.data.metrics.prometheus import render
from launcher.data.metrics.scrape import Scrape
from launcher.runtime.event_log import emit

#: Seconds between the data_metrics events of a running job.
INTERVAL = 30.0


class Publisher:
    """Takes snapshots and publishes them.

    group: the group that prepares data. address: where the metrics are served; None to serve none.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], *, group: str, address: tuple[str, int] | None
    ) -> None:
        self._snapshot = snapshot
        self._group = group
        self._address = address

    async def run(self) -> None:
        """Publish until cancelled; call `last_words` afterwards."""
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

    def publish_final(self) -> None:
        """Log the totals, and the bottleneck where there was enough to judge by."""
        snapshot = self._snapshot()
        self._print(snapshot, final=True)
        if (seen := observe(snapshot)) is not None:
            emit("data_verdict", **bottleneck.judge(seen, self._group).fields())

    @staticmethod
    def _print(snapshot: Snapshot, *, final: bool) -> None:
        for fields in snapshot.event_fields():
            emit("data_metrics", **fields, final=final)
