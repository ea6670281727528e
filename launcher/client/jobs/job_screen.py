"""A running job's screen, built from its description and its hosts' events.

A terminal draws it below what the hosts print (cli/screen/live_view), a notebook in an output of
its own (job_printing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.catalogue import dollars_text
from launcher.client.jobs.group_hosts import HostGroup, host_groups
from launcher.client.jobs.job_follower import seconds_since
from launcher.client.jobs.merged_log import LogLine
from launcher.client.show import readable
from launcher.shared import FIELD_ERRORS

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.shared import TrainingJobDescription

#: Progress bars and other open lines to show at once.
_OPEN_LINES = 4


@dataclass(frozen=True, kw_only=True)
class ShownState:
    """The state of a job as it is shown at one moment; names and lines are as the job gives them.

    head: its state, age, progress and cost. groups: the hosts of each group and the use of their
    CPUs and GPUs. open_lines: the newest lines that programs have not ended.
    """

    head: str
    groups: tuple[str, ...]
    open_lines: tuple[LogLine, ...]

    @property
    def sentence(self) -> str:
        """The state in one line, for a log."""
        return "; ".join([self.head, *self.groups])


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """A rank's latest report: its epoch, the steps that it has done, and their speed.

    steps: to do in all, in the epoch or, for a task, in the training; None if unknown, as are the
    other fields that may be None.
    wait_share: share of the time that was spent waiting for data.
    """

    epoch: int
    step: int
    steps: int | None = None
    steps_per_second: float | None = None
    wait_share: float | None = None

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds until all steps are done."""
        if self.steps is None or not self.steps_per_second:
            return None
        return max(0, self.steps - self.step) / self.steps_per_second

    def facts(self) -> Iterator[str]:
        """Yield what is known of it, in words."""
        of = "" if self.steps is None else f"/{self.steps}"
        yield f"epoch {self.epoch}  step {self.step}{of}"
        if self.steps_per_second is not None:
            yield f"{self.steps_per_second:.3g} steps/s"
        if self.wait_share is not None:
            yield f"{self.wait_share:.0%} waiting for data"
        if self.remaining_seconds is not None:
            yield f"{readable(self.remaining_seconds)} left"


@dataclass
class JobScreen:
    """The latest reports of the hosts of a job, and what is shown of them.

    dollars: the cost of a number of seconds of training; None where jobs cost nothing, and it
    returns None where prices are unknown.
    cpu, gpu: share of its CPUs and GPUs that each host uses, as far as known. open_lines: the line
    that a program of a host has not ended, such as a progress bar, by host and program. phases:
    what each host does before it trains. failure: the first error of a rank whose host goes on, as
    a text.
    step_times: when each report of the training came, and the mean seconds of a step since the one
    before.
    """

    groups: Sequence[HostGroup]
    dollars: Callable[[float], float | None] | None = None
    cpu: dict[str, float] = field(default_factory=dict)
    gpu: dict[str, float] = field(default_factory=dict)
    open_lines: dict[tuple[str, str], LogLine] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    training: TrainingProgress | None = None
    failure: str | None = None
    step_times: list[tuple[float, float]] = field(default_factory=list)
    _last_step: tuple[int, int, float] | None = None
    _drawn: tuple[object, object] | None = None
    _last_read: tuple[int, int, float] = (0, 0, 0.0)

    @classmethod
    def of(cls, job: Job, description: TrainingJobDescription) -> JobScreen:
        """Return the screen of a described job."""
        bill = job.cost(description)
        dollars = None if bill is None else bill.estimate.dollars
        return cls(host_groups(description), dollars)

    def take(self, line: LogLine) -> None:
        """Take a line of a host; an event that lacks fields, of another version, is ignored."""
        name, fields = line.event or ("", {})
        if name in _READERS:
            try:
                _READERS[name](self, line, fields)
            except FIELD_ERRORS:
                return

    def shown(self, now: TrainingJobDescription) -> ShownState:
        """Return what is shown of the job with this description."""
        age = readable(seconds_since(now["CreationTime"]))
        return ShownState(
            head="  ".join([str(now["SecondaryStatus"]), age, *self._facts(now)]),
            groups=tuple(map(self._group, self.groups)),
            open_lines=tuple(self.open_lines.values())[-_OPEN_LINES:],
        )

    def _facts(self, now: TrainingJobDescription) -> Iterator[str]:
        if self.training is not None:
            yield from self.training.facts()
        elif (phase := self._phase()) is not None:
            yield phase
        started = now.get("TrainingStartTime")
        if self.dollars is not None and started is not None:
            cost = self.dollars(seconds_since(started))
            if cost is not None:
                yield dollars_text(cost)

    def _group(self, group: HostGroup) -> str:
        count = len(group.hosts)
        used = {"CPU": _mean(self.cpu, group), "GPU": _mean(self.gpu, group)}
        shares = (f"  {name} {share:.0%}" for name, share in used.items() if share is not None)
        return f"{group.name}: {count} host{'s' * (count != 1)}{''.join(shares)}"

    def _phase(self) -> str | None:
        """Return the most common phase before training and its hosts; None if none is reported."""
        if not self.phases:
            return None
        (phase, _), *_ = Counter(self.phases.values()).most_common(1)
        known = (host for group in self.groups for host in group.hosts)
        hosts = [host for host in known if self.phases.get(host) == phase]
        others = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
        return f"{hosts[0]}{others}: {phase}"

    def _read_host_phase(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self._set_phase(line.host, str(fields["doing"]))

    def _read_requirements_started(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self._set_phase(line.host, f"installing {fields['file']}")

    def _read_requirements_installed(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self._set_phase(line.host, "")

    def _set_phase(self, host: str, phase: str) -> None:
        self.phases.pop(host, None)
        if phase:
            self.phases[host] = phase

    def _read_host_usage(self, line: LogLine, fields: Mapping[str, Any]) -> None:
        self.cpu[line.host] = float(fields["cpu"])
        if "gpu" in fields:
            self.gpu[line.host] = float(fields["gpu"])

    def _read_progress(self, line: LogLine, fields: Mapping[str, object]) -> None:
        key = (line.host, str(fields["source"]))
        self.open_lines.pop(key, None)
        if fields["text"]:
            shown = str(fields["text"])
            self.open_lines[key] = LogLine(
                group=line.group, host=line.host, text=shown, time=line.time
            )

    def _read_host_started(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self._last_step = None  # of an attempt that was interrupted

    def _read_host_ended(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self._set_phase(line.host, "")
        for key in [key for key in self.open_lines if key[0] == line.host]:
            del self.open_lines[key]

    def _read_rank_failed(self, line: LogLine, fields: Mapping[str, object]) -> None:
        text = f"{line.host}, rank {fields['rank']}: {fields['cause']}"
        self.failure = self.failure or text

    def _read_host_failed(self, line: LogLine, fields: Mapping[str, object]) -> None:
        self.failure = None  # the job ends, and its summary has the cause

    def _read_data_progress(self, line: LogLine, fields: Mapping[str, Any]) -> None:
        if self._last_step is not None:  # the trainer reports its own steps
            return
        epoch, step = int(fields["epoch"]), int(fields["step"])
        total = float(fields["total_seconds"])
        self._count_steps(line, fields, step)
        self.training = TrainingProgress(
            epoch=epoch,
            step=step,
            steps=None if fields["steps"] is None else int(fields["steps"]),
            steps_per_second=step / total,
            wait_share=float(fields["wait_seconds"]) / total,
        )

    def _read_data_epoch(self, line: LogLine, fields: Mapping[str, Any]) -> None:
        if self._last_step is None:
            self._count_steps(line, fields, int(fields["steps"]))

    def _count_steps(self, line: LogLine, fields: Mapping[str, Any], step: int) -> None:
        """Take the step time since the last report, if it is of the first rank and stream."""
        reader = (fields.get("rank"), fields.get("stream"))
        self._drawn = self._drawn or reader
        if reader != self._drawn:
            return
        epoch, total = int(fields["epoch"]), float(fields["total_seconds"])
        before = self._last_read if self._last_read[0] == epoch else (epoch, 0, 0.0)
        self._last_read = (epoch, step, total)
        self._add_step_time(line.time, step - before[1], total - before[2])

    def _read_train_step(self, line: LogLine, fields: Mapping[str, Any]) -> None:
        epoch, step, steps = (int(fields[name]) for name in ("epoch", "step", "steps"))
        rank = int(fields["rank"])
        before = self._last_step or (rank, step, line.time)
        if rank != before[0]:  # ranks go in step, so one of them is enough
            return
        self._last_step = (rank, step, line.time)
        waited, took = float(fields["data_wait"]), line.time - before[2]
        done = step - before[1]  # less than none after a return to a checkpoint
        speed = done / took if took > 0 and done >= 0 else None
        self._add_step_time(line.time, done, took)
        self.training = TrainingProgress(
            epoch=epoch,
            step=step,
            steps=steps,
            steps_per_second=speed,
            wait_share=min(1.0, waited * speed) if speed else None,
        )

    def _add_step_time(self, time: float, steps: int, seconds: float) -> None:
        if steps > 0 and seconds > 0:
            self.step_times.append((time, seconds / steps))


_READERS: Mapping[str, Callable[[JobScreen, LogLine, Mapping[str, Any]], None]] = {
    "host_phase": JobScreen._read_host_phase,
    "requirements_started": JobScreen._read_requirements_started,
    "requirements_installed": JobScreen._read_requirements_installed,
    "host_usage": JobScreen._read_host_usage,
    "progress": JobScreen._read_progress,
    "host_started": JobScreen._read_host_started,
    "host_ended": JobScreen._read_host_ended,
    "rank_failed": JobScreen._read_rank_failed,
    "host_failed": JobScreen._read_host_failed,
    "data_progress": JobScreen._read_data_progress,
    "data_epoch": JobScreen._read_data_epoch,
    "train_step": JobScreen._read_train_step,
}


def _mean(shares: Mapping[str, float], group: HostGroup) -> float | None:
    known = [shares[host] for host in group.hosts if host in shares]
    return sum(known) / len(known) if known else None
