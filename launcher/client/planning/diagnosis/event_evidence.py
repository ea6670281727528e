"""The evidence in the event lines of a job's hosts, collected line by line in bounded memory."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.summary import summarise
from launcher.client.planning.diagnosis.job_evidence import DataWait, RankTimes
from launcher.shared.data_verdict import Bound
from launcher.shared.observed_rates import COMPUTING

if TYPE_CHECKING:
    from launcher.client.jobs.log_line import LogLine
    from launcher.shared import JobDocument
    from launcher.shared.training_job_types import TrainingJobDescription

#: Events that `summarise` reads.
_DATA_EVENTS = frozenset(
    {"batches_served", "data_epoch", "data_metrics", "data_verdict", "ranks_begin_apart"}
)


@dataclass(frozen=True, kw_only=True)
class UsePoint:
    """The use of one host at a time: shares from 0 to 1, of its `cpus` and accelerators."""

    time: float
    cpu: float | None = None
    gpu: float | None = None
    cpus: int | None = None


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


@dataclass
class EventEvidence:
    """The figures in a job's event lines.

    hosts: the use of each host, by time. first, last: times between which the job trained; None
    if no event shows it.
    """

    hosts: dict[str, list[UsePoint]] = field(default_factory=dict)
    first: float | None = None
    last: float | None = None
    _steps: dict[tuple[int, str], list[_MeasuredStep]] = field(default_factory=dict)
    _passes: dict[tuple[str, str, str], _Pass] = field(default_factory=dict)
    _data_lines: list[str] = field(default_factory=list)
    _margin: float = 0.0

    def add(self, line: LogLine) -> None:
        """Take a line that a host printed; lines without figures are ignored."""
        event = line.event
        if event is None:
            return
        try:
            self._add(line, *event)
        except (KeyError, TypeError, ValueError):
            return  # a script's own line, two interleaved lines, or one of another version

    def _add(self, line: LogLine, name: str, fields: Mapping[str, Any]) -> None:
        if name in _DATA_EVENTS:
            self._data_lines.append(line.text)
        if name == "data_verdict":
            self._margin = float(fields.get("margin") or 0.0)
        if name == "host_usage":
            gpu = fields.get("gpu")
            point = UsePoint(
                time=line.time,
                cpu=float(fields["cpu"]),
                gpu=None if gpu is None else float(gpu),
                cpus=int(fields["cpus"]),
            )
            self.hosts.setdefault(line.host, []).append(point)
        elif name in ("data_progress", "data_epoch"):
            total = float(fields["total_seconds"])
            key = (str(fields.get("rank", 0)), str(fields["stream"]), str(fields["epoch"]))
            steps = fields["step"] if name == "data_progress" else fields["steps"]
            self._passes[key] = _Pass(int(steps), float(fields["wait_seconds"]), total)
            self._trained(line.time - total, line.time)
        elif name == "train_step":
            waits = fields.get("communication")
            step = _MeasuredStep(
                data_wait=float(fields["data_wait"]),
                compute=float(fields["compute"]),
                communication=None if waits is None else float(waits),
            )
            self._steps.setdefault((int(fields["rank"]), line.host), []).append(step)
            self._trained(line.time, line.time)

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
    def step_seconds(self) -> float | None:
        """Mean seconds of a step, of the rank with the most steps; None if unknown."""
        by_rank = self._by_rank()
        if by_rank:
            most = max(by_rank.values(), key=lambda each: each.steps)
            return most.total / most.steps if most.steps else None
        times = [each.step for each in self.ranks()]
        return statistics.fmean(times) if times else None

    def data(
        self, description: TrainingJobDescription, document: JobDocument | None
    ) -> DataWait | None:
        """Return the wait for data; None if no rank reads with launcher.data."""
        by_rank = self._by_rank()
        slowest = max(by_rank.values(), key=lambda each: each.wait, default=None)
        if slowest is None or slowest.total <= 0:
            return None
        summary: Any = summarise(description, document, self._data_lines)["data"] or {}
        verdict, hosts = summary.get("verdict"), summary.get("metrics", {}).get("hosts", {})
        found = DataWait(
            share=slowest.wait / slowest.total, steps=slowest.steps, seconds=slowest.total
        )
        if not verdict:
            return found
        return _with_verdict(found, {"margin": self._margin, **verdict}, hosts)

    def _by_rank(self) -> dict[str, _Pass]:
        ranks: dict[str, _Pass] = {}
        for (rank, _, _), each in self._passes.items():
            sums = ranks.setdefault(rank, _Pass(0, 0.0, 0.0))
            sums.steps += each.steps
            sums.wait += each.wait
            sums.total += each.total
        return ranks


def _with_verdict(
    found: DataWait, verdict: Mapping[str, Any], hosts: Mapping[str, Mapping[str, float]]
) -> DataWait:
    """Return the wait as the job's own verdict has it, without the wait for the first batch."""
    bound = Bound(verdict["bound"])
    prepared = [each for each in hosts.values() if each.get("prepared")]
    work = sum(each.get("preparing", 0.0) - each.get("starved", 0.0) for each in prepared)
    batches = sum(each.get("batches", 0.0) for each in prepared)
    seconds = {
        host: each.get("preparing", 0.0) / each["prepared"]
        for host, each in hosts.items()
        if each.get("prepared")
    }
    return DataWait(
        share=found.share if bound is Bound.TOO_SHORT else float(verdict["wait_share"]),
        steps=found.steps,
        seconds=found.seconds,
        bound=bound,
        more=verdict.get("more"),
        margin=float(verdict.get("margin") or 0.0),
        text=str(verdict["text"]),
        is_waiting=bool(prepared)
        and sum(each.get("cpu", 0.0) for each in prepared) < COMPUTING * work,
        slowest=max(seconds, key=lambda host: seconds[host], default=None),
        bytes_per_batch=sum(each.get("bytes", 0.0) for each in prepared) / batches
        if batches
        else 0.0,
    )
