"""The profile of a workload from the metrics of a job that has ended."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.client.catalogue import find
from launcher.client.jobs import HostGroup, Job, host_groups
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.step_model import family
from launcher.client.planning.workloads.this_machine import MachineCpu, catalogue_name, this_cpu
from launcher.client.planning.workloads.workload_profile import WorkloadProfile, rounded
from launcher.client.sessions import TERMINAL_STATUSES
from launcher.errors import PlatformError
from launcher.shared import FEWEST_STEPS, FIELD_ERRORS, gpu_models, parse_event

#: A job's mean may be off by this share: its CPU seconds include receiving and sending, and the
#: kernel counts them in ticks. A host that differs more widens the range further.
_UNCERTAINTY = 0.15
_WITHOUT_FIGURES = "measure its dataset instead: launcher plan measure job.yaml"


@dataclass
class StreamCounts:
    """Samples and steps of one stream, over all ranks and epochs.

    largest: samples of the largest batch; the mean of jobs whose events have no batch_size.
    epoch_0_samples: samples of epoch 0 that the ranks received. surplus: repeated samples less
    dropped ones, in epoch 0, of all ranks. busy: seconds of the ranks in which they did not wait
    for a batch.
    """

    samples: int = 0
    steps: int = 0
    largest: int = 0
    epoch_0_samples: int = 0
    surplus: int = 0
    busy: float = 0.0


@dataclass
class JobFigures:
    """The figures of a job's data service and of its steps, from the event lines of its hosts.

    hosts: the totals of each host's workers. streams: what the ranks read. verdict: the words on
    what training waited for; "" for none. compute: seconds of each rank's measured steps of a task,
    without waits. communication: seconds for which ranks waited for each other in those steps, by
    host. has_used_gpus: True if a host's GPUs computed.
    """

    hosts: dict[str, Mapping[str, float]] = field(default_factory=dict)
    streams: dict[str, StreamCounts] = field(default_factory=dict)
    verdict: str = ""
    compute: dict[int, list[float]] = field(default_factory=dict)
    communication: dict[str, list[float]] = field(default_factory=dict)
    has_used_gpus: bool = False

    @property
    def training(self) -> tuple[str, StreamCounts]:
        """The stream with most samples, and what was read of it."""
        return max(self.streams.items(), key=lambda item: item[1].samples)

    @property
    def step_seconds(self) -> float | None:
        """Seconds of a step without its wait for data; None if unknown.

        Those of a task, without communication; the first of each rank warms up. Of other scripts
        it is the time between two batches, without the wait for the second one.
        """
        measured = [seconds for each in self.compute.values() for seconds in each[1:]]
        if measured:
            return statistics.median(measured)
        if not self.streams:
            return None
        counts = self.training[1]
        return counts.busy / counts.steps if counts.steps and counts.busy > 0 else None

    @property
    def communication_seconds(self) -> Measure | None:
        """Seconds that several train hosts add to a step of a task; None if there were none.

        The first of each host warms up. The range is that of the quartiles.
        """
        waits = [seconds for each in self.communication.values() for seconds in each[1:]]
        if len(self.communication) < 2 or len(waits) < FEWEST_STEPS:
            return None
        low, middle, high = map(rounded, statistics.quantiles(waits, method="inclusive"))
        return Measure(mean=middle, low=low, high=high)

    @classmethod
    def read(cls, lines: Iterable[str]) -> JobFigures:
        """Return the figures of lines; those of a later line replace earlier ones."""
        found = cls()
        for line in lines:
            if (event := parse_event(line)) is not None:
                found.add(*event)
        return found

    def add(self, name: str, fields: Mapping[str, Any]) -> None:
        """Take an event."""
        with contextlib.suppress(*FIELD_ERRORS):  # a script's own line, or two interleaved lines
            self._add(name, fields)

    def _add(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "data_metrics" and fields["of"] == "hosts":
            for host, figures in fields["figures"].items():
                self.hosts[host] = {
                    name: float(value)
                    for name, value in figures.items()
                    if isinstance(value, int | float)
                }
        elif name == "data_verdict":
            self.verdict = str(fields["text"])
        elif name == "data_epoch":
            samples, steps = int(fields["samples"]), int(fields["steps"])
            busy = float(fields["total_seconds"]) - float(fields["wait_seconds"])
            counts = self.streams.setdefault(str(fields["stream"]), StreamCounts())
            counts.samples += samples
            counts.steps += steps
            counts.busy += busy
            if steps:
                size = int(fields.get("batch_size", math.ceil(samples / steps)))
                counts.largest = max(counts.largest, size)
            if int(fields["epoch"]) == 0:
                counts.epoch_0_samples += samples
                counts.surplus = int(fields["pads"]) - int(fields["drops"])  # of all ranks
        elif name == "train_step":
            self.compute.setdefault(int(fields["rank"]), []).append(float(fields["compute"]))
            if fields.get("communication") is not None:
                waits = self.communication.setdefault(str(fields["host"]), [])
                waits.append(float(fields["communication"]))
        elif name == "host_usage":
            self.has_used_gpus |= float(fields.get("gpu") or 0.0) > 0


@dataclass(frozen=True, kw_only=True)
class JobMachines:
    """The machines of a job.

    cpu: that prepared. accelerators: their names in the catalogue; None for one that it has not.
    """

    cpu: MachineCpu
    accelerators: frozenset[str | None]

    @classmethod
    def here(cls, cpu_family: str | None = None) -> JobMachines:
        """Return this machine; cpu_family: its EC2 family if it is no EC2 instance."""
        accelerators = frozenset(map(catalogue_name, gpu_models()))
        return cls(cpu=this_cpu(cpu_family), accelerators=accelerators)


def profile_of_job(
    job: Job,
    *,
    batch_size: int | None = None,
    cpu_family: str | None = None,
    gpu_seconds: Mapping[str, float] | None = None,
) -> WorkloadProfile:
    """Return the profile of a job, with a wider range than a measurement has.

    batch_size: of the planned training; None for that of the job. Where hosts of several CPU
    families prepared batches, the figures are those of the family that prepared most. Raises
    PlatformError for a job that runs, or has no figures of data workers.
    """
    status = job.status
    if status not in TERMINAL_STATUSES:
        raise PlatformError(f"job {job.name} has not ended ({status}): profile it when it has")
    figures = JobFigures.read(line.text for line in job.logs())
    machines = JobMachines.here(cpu_family)
    if job.session.platform.bills:
        machines, figures.hosts = _of_most(host_groups(job.description()), figures, cpu_family)
    return profile_of_figures(
        job.name, figures, batch_size=batch_size, machines=machines, gpu_seconds=gpu_seconds
    )


def _of_most(
    groups: Sequence[HostGroup], figures: JobFigures, cpu_family: str | None
) -> tuple[JobMachines, dict[str, Mapping[str, float]]]:
    """Return the machines of a job on SageMaker, and the figures of those that prepared most."""
    types = {host: find(group.instance_type) for group in groups for host in group.hosts}
    prepared: Counter[str] = Counter()
    for host, each in figures.hosts.items():
        if (instance := types.get(host)) is not None:
            prepared[family(instance)] += int(each.get("prepared", 0))
    accelerators = frozenset(
        each.accelerator_name for each in types.values() if each and each.accelerator_name
    )
    if not prepared:
        cpu = MachineCpu(model="unknown", count=0, family=cpu_family)
        return JobMachines(cpu=cpu, accelerators=accelerators), figures.hosts
    ((name, _),) = prepared.most_common(1)
    hosts = {
        host: each
        for host, each in figures.hosts.items()
        if (instance := types.get(host)) is not None and family(instance) == name
    }
    first = types[next(iter(hosts))]
    assert first is not None
    cpu = MachineCpu(model=first.name, count=first.vcpu or 0, family=cpu_family or name)
    return JobMachines(cpu=cpu, accelerators=accelerators), hosts


def profile_of_figures(
    job_name: str,
    figures: JobFigures,
    *,
    batch_size: int | None = None,
    machines: JobMachines | None = None,
    gpu_seconds: Mapping[str, float] | None = None,
) -> WorkloadProfile:
    """Return the profile of a job from its figures, as `profile_of_job` does.

    machines: None for this one.
    """
    _check(job_name, figures)
    machines = machines or JobMachines.here()
    stream, counts = figures.training
    total = StreamCounts(
        samples=sum(each.samples for each in figures.streams.values()),
        steps=sum(each.steps for each in figures.streams.values()),
    )
    per_batch = total.samples / total.steps  # of all streams, as the workers' totals are
    size = batch_size or counts.largest
    return WorkloadProfile(
        dataset=stream,
        batch_size=size,
        cpu_seconds=_cpu_seconds(figures.hosts, per_batch),
        wait_seconds=_wait_seconds(figures.hosts, per_batch),
        bytes_per_batch=size * _ratio(figures.hosts.values(), "bytes", "batches") / per_batch,
        cpu=machines.cpu,
        samples_per_epoch=max(0, counts.epoch_0_samples - counts.surplus) or None,
        gpu_seconds={
            **_gpu_seconds(figures, machines, is_changed=size != counts.largest),
            **(gpu_seconds or {}),
        },
        communication_seconds=figures.communication_seconds,
        datasets=tuple(figures.streams),
        measured={
            "job": job_name,
            "samples": round(_sum(figures.hosts.values(), "prepared") * per_batch),
            "streams": list(figures.streams),
            "longest_batch_seconds": rounded(
                max(each.get("longest", 0.0) for each in figures.hosts.values())
            ),
            **({"step_seconds": rounded(step)} if (step := figures.step_seconds) else {}),
            **({"verdict": figures.verdict} if figures.verdict else {}),
        },
    )


def _gpu_seconds(
    figures: JobFigures, machines: JobMachines, *, is_changed: bool
) -> Mapping[str, float]:
    """Return the seconds of a step by accelerator; none if it cannot be told.

    is_changed: the planned batch is another than the job's, whose steps take another time.
    """
    seconds, (name, *others) = figures.step_seconds, machines.accelerators or [None]
    if seconds is None or is_changed or not figures.has_used_gpus or name is None or others:
        return {}
    return {name: rounded(seconds)}


def _check(name: str, figures: JobFigures) -> None:
    """Raise PlatformError if a sample's cost does not follow from a job's figures."""
    if not figures.streams:
        why = "its ranks finished no pass over a dataset of launcher.data"
    elif not figures.hosts:
        why = "its ranks prepared their batches themselves, and only data workers count CPU seconds"
    elif not all({"cpu", "prepared", "bytes", "batches"} <= set(f) for f in figures.hosts.values()):
        why = "its data workers are of a version that counted no CPU seconds"
    elif not any(each.samples and each.steps for each in figures.streams.values()):
        why = "its ranks received no samples"
    elif (batches := _sum(figures.hosts.values(), "prepared")) < FEWEST_STEPS:
        why = f"its workers prepared {batches:.0f} batches, too few to judge by"
    elif not _sum(figures.hosts.values(), "cpu"):
        why = "its workers used less CPU than the kernel counts"
    else:
        return
    raise PlatformError(f"job {name} has no figures of a sample's cost: {why}; {_WITHOUT_FIGURES}")


def _cpu_seconds(hosts: Mapping[str, Mapping[str, float]], per_batch: float) -> Measure:
    """Return the CPU seconds of a sample, with a range that has those of each host."""
    mean = _ratio(hosts.values(), "cpu", "prepared") / per_batch
    each = [
        _ratio([host], "cpu", "prepared") / per_batch for host in hosts.values() if host["prepared"]
    ]
    used = [seconds for seconds in each if seconds > 0]
    low, high = min([mean, *used]), max([mean, *used])
    return Measure(mean=mean, low=low * (1 - _UNCERTAINTY), high=high * (1 + _UNCERTAINTY))


def _wait_seconds(hosts: Mapping[str, Mapping[str, float]], per_batch: float) -> Measure:
    """Return the seconds of a sample in which its worker neither computed nor wanted a CPU."""
    if not all({"preparing", "starved"} <= set(each) for each in hosts.values()):
        return Measure.exact(0.0)
    preparing, *others = (
        _ratio(hosts.values(), name, "prepared") / per_batch
        for name in ("preparing", "cpu", "starved")
    )
    wait = preparing - sum(others)
    if wait <= _UNCERTAINTY * preparing:  # the CPU seconds may be off by so much
        return Measure.exact(0.0)
    return Measure.within(wait, _UNCERTAINTY)


def _ratio(hosts: Iterable[Mapping[str, float]], above: str, below: str) -> float:
    each = list(hosts)
    return _sum(each, above) / max(_sum(each, below), 1e-9)


def _sum(hosts: Iterable[Mapping[str, float]], name: str) -> float:
    return sum(host[name] for host in hosts)
