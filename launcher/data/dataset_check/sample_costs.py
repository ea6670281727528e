"""Measurements for `launcher plan measure`: what samples cost, and how many come side by side."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable
from pathlib import Path

from launcher.data.batches import Array
from launcher.data.dataset_check.check_request import SampleCosts
from launcher.data.dataset_check.checked_dataset import DatasetCheck, timed
from launcher.data.dataset_check.checked_stream import CheckedStream
from launcher.data.metrics import cpu_seconds, starved_seconds

#: Seeds of the random orders: batches are made of other samples than those read one by one.
_SAMPLES_SEED, _BATCHES_SEED = 0, 1
#: CPU seconds of other processes below which they are not counted: the kernel counts in ticks.
_CHILDREN = 0.05
#: Seconds of batches that are read at least: the samples of light ones are there in a moment.
_LEAST_SECONDS = 1.0
#: Seed of what all processes prepare at the same time, and seconds between two looks for a round.
_TOGETHER_SEED = 2
_POLL_SECONDS = 0.002


class CostMeasurement(DatasetCheck):
    """Reads samples one by one, then whole batches of other samples, and counts what they take."""

    def read(self) -> None:
        """Measure, each of both for the request's seconds at most."""
        self.found.costs = costs = SampleCosts()
        begin, tree, own = time.perf_counter(), cpu_seconds(), time.process_time()
        stream = self.open()
        costs.build_seconds = time.perf_counter() - begin
        starved = starved_seconds()
        has_ended = self._read_one_by_one(stream, costs)
        costs.starved = starved_seconds() - starved
        length = stream.described.length or (self.found.samples if has_ended else None)
        self._read_whole_batches(stream, costs, length)
        children = (cpu_seconds() - tree) - (time.process_time() - own)
        costs.children_cpu = children if children > _CHILDREN else 0.0
        costs.memory = _peak_bytes()

    def _read_one_by_one(self, stream: CheckedStream, costs: SampleCosts) -> bool:
        """Return whether the dataset ended."""
        with contextlib.closing(stream.in_random_order(None, _SAMPLES_SEED)) as samples:
            for (_, arrays), cpu, wall in timed(samples):
                self.found.samples += 1
                costs.bytes += _size_of(arrays)
                if self.found.samples == 1:
                    costs.first_seconds = wall
                else:
                    costs.cpu.append(cpu)
                    costs.wall += wall
                if self.found.samples >= self.request.samples or costs.wall > self.request.seconds:
                    return False
        self.refuse_empty()
        return True

    def _size(self, costs: SampleCosts, length: int | None) -> int:
        """Return the samples of a batch that can be read whole, in the request's seconds."""
        each = costs.wall / len(costs.cpu) if costs.cpu else costs.first_seconds
        size: int = self.request.loader.get("batch_size") or 1
        size = min(size, max(1, int(self.request.seconds / max(each, 1e-9))))
        return min(size, length) if length else size

    def _read_whole_batches(
        self, stream: CheckedStream, costs: SampleCosts, length: int | None
    ) -> None:
        """Read batches; none if the samples do not make one and the loader has no collate_fn."""
        with self.noting_not_collated(stream, costs.batches):
            self._read_batches(stream, costs, length)
            if len(costs.batches) > 1:
                del costs.batches[0]  # it warms up

    def _read_batches(self, stream: CheckedStream, costs: SampleCosts, length: int | None) -> None:
        size, read, spent, starved = self._size(costs, length), 0, 0.0, starved_seconds()
        with contextlib.closing(stream.in_random_order(size, _BATCHES_SEED)) as batches:
            for (_, arrays), cpu, wall in timed(batches):
                if length and read + size > length:
                    return  # the last batch is short
                before, starved = starved, starved_seconds()
                passed = max(0.0, wall - (starved - before))
                costs.batches.append((size, cpu, passed, _size_of(arrays)))
                read, spent = read + size, spent + wall
                is_enough = read >= self.request.samples and spent >= _LEAST_SECONDS
                if is_enough or spent > self.request.seconds:
                    return


def _size_of(arrays: Iterable[Array]) -> int:
    return sum(array.nbytes for array in arrays)


def _peak_bytes() -> int:
    """Return the most memory that this process has had.

    getrusage(2) would return that of the process that started it, if that had more.
    """
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


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
        with contextlib.closing(stream.in_random_order(None, _TOGETHER_SEED)) as samples:
            for _ in samples:
                count += 1
                if time.perf_counter() - began >= seconds:
                    break
        passed = time.perf_counter() - began - (starved_seconds() - starved)
        return count / max(passed, 1e-9)
