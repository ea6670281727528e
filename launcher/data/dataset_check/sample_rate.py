"""Measurement of how many samples a second one of several processes prepares at the same time."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from launcher.data.dataset_check.checked_dataset import DatasetCheck
from launcher.data.dataset_check.checked_stream import CheckedStream
from launcher.data.metrics import starved_seconds

#: All processes prepare the same samples.
_SEED = 2
_POLL_SECONDS = 0.002


class RateMeasurement(DatasetCheck):
    """Prepares samples in rounds of the request, each of which a file begins.

    In the folder of the answer, this process makes OUTPUT.ready when it can begin, waits for each
    file round-N, and writes OUTPUT.round-N with its rate in it: samples a second, without the time
    for which others had the CPU.
    """

    def read(self) -> None:
        """Measure the rounds that the request names."""
        output = Path(self.request.output)
        stream = self.open()
        self._rate(stream, 0.0)  # the first sample often opens files
        Path(f"{output}.ready").touch()
        for number in self.request.rounds:
            begin = output.parent / f"round-{number}"
            while not begin.exists():
                time.sleep(_POLL_SECONDS)
            rate = self._rate(stream, self.request.seconds)
            part = Path(f"{output}.part")
            part.write_text(json.dumps(rate))
            part.rename(f"{output}.round-{number}")

    def _rate(self, stream: CheckedStream, seconds: float) -> float:
        """Return the samples a second of so many seconds, or of the whole dataset."""
        count, began, starved = 0, time.perf_counter(), starved_seconds()
        with contextlib.closing(stream.in_random_order(None, _SEED)) as samples:
            for _ in samples:
                count += 1
                if time.perf_counter() - began >= seconds:
                    break
        passed = time.perf_counter() - began - (starved_seconds() - starved)
        return count / max(passed, 1e-9)
