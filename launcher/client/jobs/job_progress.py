"""The progress of a running job, from the events of its hosts, and its state in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.catalogue import dollars_text
from launcher.client.jobs.durations import readable
from launcher.client.jobs.group_hosts import HostGroup
from launcher.client.jobs.log_line import LogLine
from launcher.shared import FIELD_ERRORS

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


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


@dataclass
class JobProgress:
    """The latest reports of the hosts of a job.

    cpu, gpu: share of its CPUs and GPUs that each host uses, as far as known. open_lines: the line
    that a program of a host has not ended, such as a progress bar, by host and program. phases:
    what each host does before it trains. failure: the first error of a rank whose host goes on, as
    a text.
    """

    groups: Sequence[HostGroup]
    cpu: dict[str, float] = field(default_factory=dict)
    gpu: dict[str, float] = field(default_factory=dict)
    open_lines: dict[tuple[str, str], LogLine] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    training: TrainingProgress | None = None
    failure: str | None = None
    _last_step: tuple[int, int, float] | None = None

    def add(self, line: LogLine, name: str, fields: Mapping[str, Any]) -> None:
        """Take an event line; ignore one that lacks fields, as another version may write it."""
        reader = getattr(self, f"_read_{name}", None)
        if reader is not None:
            try:
                reader(line, fields)
            except FIELD_ERRORS:
                return

    def cpu_of(self, group: HostGroup) -> float | None:
        """Return the mean use of the CPUs of a group; None before its hosts have reported."""
        return _mean(self.cpu, group)

    def gpu_of(self, group: HostGroup) -> float | None:
        """Return the mean use of the GPUs of a group; None without any, or before a report."""
        return _mean(self.gpu, group)

    @property
    def phase(self) -> str | None:
        """The most common phase before training and its hosts; None if none is reported."""
        if self.training is not None or not self.phases:
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
        step, total = int(fields["step"]), float(fields["total_seconds"])
        self.training = TrainingProgress(
            epoch=int(fields["epoch"]),
            step=step,
            steps=None if fields["steps"] is None else int(fields["steps"]),
            steps_per_second=step / total,
            wait_share=float(fields["wait_seconds"]) / total,
        )

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
        self.training = TrainingProgress(
            epoch=epoch,
            step=step,
            steps=steps,
            steps_per_second=speed,
            wait_share=min(1.0, waited * speed) if speed else None,
        )


def _mean(shares: Mapping[str, float], group: HostGroup) -> float | None:
    known = [shares[host] for host in group.hosts if host in shares]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, kw_only=True)
class StateText:
    """Formats the state of a job; names of groups are as the job gives them.

    dollars: the cost of a number of seconds of training; None where jobs cost nothing, and it
    returns None where prices are unknown.
    """

    progress: JobProgress
    dollars: Callable[[float], float | None] | None

    def head(self, now: TrainingJobDescription) -> str:
        """Return the job's state, age, progress and cost."""
        age = _seconds_since(now["CreationTime"])
        return "  ".join([str(now["SecondaryStatus"]), readable(age), *self._facts(now)])

    def groups(self) -> list[str]:
        """Return the hosts of each group and the use of their CPUs and GPUs."""
        return [self._group(group) for group in self.progress.groups]

    def sentence(self, now: TrainingJobDescription) -> str:
        """Return the state in one line, for a log."""
        return "; ".join([self.head(now), *self.groups()])

    def _facts(self, now: TrainingJobDescription) -> Iterator[str]:
        if self.progress.training is not None:
            yield from _training(self.progress.training)
        elif self.progress.phase is not None:
            yield self.progress.phase
        started = now.get("TrainingStartTime")
        if self.dollars is not None and started is not None:
            cost = self.dollars(_seconds_since(started))
            if cost is not None:
                yield dollars_text(cost)

    def _group(self, group: HostGroup) -> str:
        count = len(group.hosts)
        used = {"CPU": self.progress.cpu_of(group), "GPU": self.progress.gpu_of(group)}
        shares = (f"  {name} {share:.0%}" for name, share in used.items() if share is not None)
        return f"{group.name}: {count} host{'s' * (count != 1)}{''.join(shares)}"


def _training(training: TrainingProgress) -> Iterator[str]:
    of = "" if training.steps is None else f"/{training.steps}"
    yield f"epoch {training.epoch}  step {training.step}{of}"
    if training.steps_per_second is not None:
        yield f"{training.steps_per_second:.3g} steps/s"
    if training.wait_share is not None:
        yield f"{training.wait_share:.0%} waiting for data"
    if training.remaining_seconds is not None:
        yield f"{readable(training.remaining_seconds)} left"


def _seconds_since(moment: datetime) -> float:
    return (datetime.now(timezone.utc) - moment).total_seconds()
