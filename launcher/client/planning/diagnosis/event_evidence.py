"""The evidence in the lines of a job's hosts, collected line by line: events, and Keras' times."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from launcher.client.jobs import DataMeasure
from launcher.client.planning.diagnosis.job_evidence import (
    MeanStepTime,
    StepWindow,
    UsePoint,
    mean_step_time,
)
from launcher.shared import (
    FIELD_ERRORS,
    Cause,
    DataWait,
    PassTimes,
    RankTimes,
    explain_wait,
    loading_kind,
)

if TYPE_CHECKING:
    from launcher.client.jobs import LogLine

#: Events of which the data service's figures and judgement are.
_DATA_EVENTS = frozenset({"data_metrics", "data_verdict"})
#: The last line of an epoch that Keras prints: "195/195 [=====] - 37s 192ms/step - loss: 0.5".
_KERAS = re.compile(r"(?<!\d)(\d+)/\1(?!\d).*?(\d+(?:\.\d+)?)(us|ms|s)/step")
_KERAS_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class _MeasuredStep:
    """Seconds of one step of a task, as train_step has them."""

    data_wait: float
    compute: float
    communication: float | None


@dataclass
class _Pass:
    """The steps and seconds of one rank's pass over a stream, so far."""

    steps: int
    wait: float
    total: float
    samples: int = 0


@dataclass
class EventEvidence:
    """The figures in a job's event lines.

    hosts: the use of each host, by time. first, last: times between which the job trained; None
    if no event shows it.
    """

    hosts: dict[str, list[UsePoint]] = field(default_factory=dict)
    first: float | None = None
    last: float | None = None
    hang: str = ""
    _times: dict[str, list[PassTimes]] = field(default_factory=dict)
    _steps: dict[tuple[int, str], list[_MeasuredStep]] = field(default_factory=dict)
    _passes: dict[tuple[str, str, str], _Pass] = field(default_factory=dict)
    _measure: DataMeasure = field(default_factory=DataMeasure)
    _windows: dict[str, list[StepWindow]] = field(default_factory=dict)
    _logged: dict[int, tuple[float, Any, int]] = field(default_factory=dict)

    def add(self, line: LogLine) -> None:
        """Take a line that a host printed; lines without figures are ignored."""
        event = line.event
        if event is None:
            if "/step" in line.text:
                self._add_keras(line)
            return
        try:
            self._add(line, *event)
        except FIELD_ERRORS:
            return  # a script's own line, two interleaved lines, or one of another version

    def _add(self, line: LogLine, name: str, fields: Mapping[str, Any]) -> None:
        if name in _DATA_EVENTS:
            self._measure.add(name, fields)
        if name == "rank_hangs":
            self.hang = f"rank {fields['of_rank']}: {fields['cause']}"
        elif name == "host_usage":
            gpu = fields.get("gpu")
            cpu, cpus = float(fields["cpu"]), int(fields["cpus"])
            machine_cpus = fields.get("machine_cpus")
            point = UsePoint(
                time=line.time,
                cpu=cpu,
                gpu=None if gpu is None else float(gpu),
                cpus=cpus,
                gpus=tuple(map(float, fields.get("gpus", ()))),
                machine=fields.get("machine_busy"),
                own=cpu * cpus / machine_cpus if machine_cpus else None,
            )
            self.hosts.setdefault(line.host, []).append(point)
        elif name in ("data_progress", "data_epoch"):
            self._add_pass(line, name, fields)
        elif name == "train_step":
            waits = fields.get("communication")
            step = _MeasuredStep(
                data_wait=float(fields["data_wait"]),
                compute=float(fields["compute"]),
                communication=None if waits is None else float(waits),
            )
            rank = int(fields["rank"])
            self._steps.setdefault((rank, line.host), []).append(step)
            self._trained(line.time, line.time)
            self._add_steps(rank, line.time, fields.get("epoch"), int(fields["step"]))

    def _add_pass(self, line: LogLine, name: str, fields: Mapping[str, Any]) -> None:
        """Take what a rank has read of an epoch; the steps since the last time are a window."""
        rank, total = str(fields.get("rank", 0)), float(fields["total_seconds"])
        found = _Pass(
            steps=int(fields["step"] if name == "data_progress" else fields["steps"]),
            wait=float(fields["wait_seconds"]),
            total=total,
            samples=int(fields.get("samples", 0)),
        )
        key = (rank, str(fields["stream"]), str(fields["epoch"]))
        before = self._passes.get(key)
        if before is None or before.steps > found.steps:
            before = _Pass(0, 0.0, 0.0)
        window = StepWindow(found.steps - before.steps, total - before.total)
        self._windows.setdefault(f"rank {rank}, {key[1]}", []).append(window)
        self._passes[key] = found
        if "own" in fields:
            self._times.setdefault(rank, []).append(PassTimes.of_event(fields))
        self._trained(line.time - total, line.time)

    def _add_steps(self, rank: int, time: float, epoch: object, step: int) -> None:
        """Take the number of steps that a rank of a task has done at a time."""
        before = self._logged.get(rank)
        self._logged[rank] = (time, epoch, step)
        if before is not None and before[1] == epoch and step > before[2]:
            window = StepWindow(step - before[2], time - before[0])
            self._windows.setdefault(f"task {rank}", []).append(window)

    def _add_keras(self, line: LogLine) -> None:
        """Take the mean time of an epoch's steps from Keras' progress line."""
        if match := _KERAS.search(line.text):
            steps = int(match[1])
            seconds = float(match[2]) * _KERAS_UNITS[match[3]] * steps
            self._windows.setdefault(f"Keras {line.host}", []).append(StepWindow(steps, seconds))

    def _trained(self, first: float, last: float) -> None:
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def ranks(self) -> Iterator[RankTimes]:
        """Yield the mean times of each rank of a task; its first measured step warms up."""
        for (rank, host), found in sorted(self._steps.items()):
            steps = found[1:] or found
            waits = [each.communication for each in steps if each.communication is not None]
            yield RankTimes(
                rank=rank,
                host=host,
                data_wait=statistics.fmean(each.data_wait for each in steps),
                compute=statistics.fmean(each.compute for each in steps),
                communication=statistics.fmean(waits) if len(waits) == len(steps) else None,
                steps=len(steps),
            )

    @property
    def rank_count(self) -> int:
        """The number of ranks that reported a step or a pass."""
        return len({str(rank) for rank, _ in self._steps} | {key[0] for key in self._passes})

    @property
    def step(self) -> MeanStepTime | None:
        """Times of a step, of the rank and stream with the longest record; None if unknown."""
        usable = [
            [each for each in windows if each.steps > 0 and each.seconds > 0]
            for windows in self._windows.values()
        ]
        most: list[StepWindow] = max(usable, key=_seconds, default=[])
        if not most:  # of a task that logged a step or two
            most = [StepWindow(each.steps, each.step * each.steps) for each in self.ranks()]
        return mean_step_time(most)

    @property
    def samples_per_step(self) -> float | None:
        """Samples of a step of all ranks; None before the end of an epoch."""
        streams: dict[str, float] = {}
        for (_, stream, _), each in self._passes.items():
            streams[stream] = streams.get(stream, 0.0) + each.total
        longest = max(streams, key=lambda stream: streams[stream], default=None)
        whole = [each for each in self._by_rank(longest).values() if each.samples and each.steps]
        return sum(each.samples / each.steps for each in whole) if whole else None

    def data(self, groups: str) -> DataWait | None:
        """Return the wait for data; None if no rank reads with launcher.data.

        groups: the names of those that prepare data.
        """
        by_rank = self._by_rank()
        slowest = max(by_rank.values(), key=lambda each: each.wait, default=None)
        if slowest is None or slowest.total <= 0:
            return None
        rates, share = self._measure.rates, slowest.wait / slowest.total
        found = self._measure.wait if rates is None else explain_wait(rates, groups)
        if found is None:
            found = DataWait(share=share)
        elif found.bound is Cause.TOO_SHORT:
            found = replace(found, share=share)
        if found.kind is None and rates is None:
            found = replace(found, kind=loading_kind(self.passes))
        return replace(found, steps=slowest.steps, seconds=slowest.total)

    @property
    def passes(self) -> tuple[PassTimes, ...]:
        """The passes of the rank that read for longest."""
        ranks = self._times.values()
        return tuple(max(ranks, key=lambda each: sum(one.seconds for one in each), default=()))

    @property
    def steps_by_rank(self) -> dict[str, int]:
        """Batches that each rank has taken."""
        return {rank: each.steps for rank, each in self._by_rank().items()}

    def _by_rank(self, only: str | None = None) -> dict[str, _Pass]:
        """Return the sums of each rank over all passes, or those over one stream."""
        ranks: dict[str, _Pass] = {}
        for (rank, stream, _), each in self._passes.items():
            if only not in (None, stream):
                continue
            sums = ranks.setdefault(rank, _Pass(0, 0.0, 0.0))
            sums.steps += each.steps
            sums.wait += each.wait
            sums.total += each.total
            sums.samples += each.samples
        return ranks


def _seconds(windows: list[StepWindow]) -> float:
    return sum(each.seconds for each in windows)
