"""One compared job: step time, prices, and idle machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.client import catalogue
from launcher.client.jobs import CollectedSeries, Job, MetricReader, day_created
from launcher.client.planning.diagnosis.evidence_reading import read_evidence
from launcher.client.planning.diagnosis.job_evidence import JobEvidence, MeanStepTime
from launcher.client.sessions import metric_patterns
from launcher.shared import GroupUse

_HOUR = 3600
#: Beginnings of the names of Launcher's own metrics that tell how good a model is.
_OF_THE_MODEL = ("train/loss", "validation/")


@dataclass(frozen=True, kw_only=True)
class ComparedGroup:
    """A group's hosts. per_hour: USD of all of them; None if the price is unknown.

    idle_cpu, idle_gpu: shares from 0 to 1 that were not in use; None if unknown.
    """

    name: str
    instance_type: str
    count: int
    trains: bool
    per_hour: float | None
    idle_cpu: float | None
    idle_gpu: float | None

    @property
    def hosts(self) -> str:
        """The hosts as text: "2 x ml.c5.18xlarge"."""
        return f"{self.count} x {self.instance_type}"


@dataclass(frozen=True, kw_only=True)
class ComparedJob:
    """A job as it is compared.

    place: its region, "this machine", and whether on spot instances. metrics: seconds since the
    first line of its logs and value, of what the job measures of its model, by name.
    is_priced_by_type: the job ran where nothing is billed, and its price is that of the instance
    types that it names. step: None if no step was timed. samples_per_step: of all ranks; None if
    unknown. billable_seconds: of each host; None until known. prices: where they are from, and how
    old they were when the job was created.
    """

    job_name: str
    status: str
    place: str
    is_priced_by_type: bool
    groups: tuple[ComparedGroup, ...]
    step: MeanStepTime | None
    samples_per_step: float | None
    billable_seconds: float | None
    prices: tuple[str, ...]
    metrics: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @property
    def per_hour(self) -> float | None:
        """USD per hour of all hosts; None if a price is unknown."""
        known = [group.per_hour for group in self.groups]
        return None if not known or None in known else sum(each or 0.0 for each in known)

    @property
    def per_step(self) -> float | None:
        """USD of a step."""
        if self.per_hour is None or self.step is None:
            return None
        return self.per_hour / _HOUR * self.step.mean

    @property
    def total(self) -> float | None:
        """USD of the billable seconds of all hosts, or what they would cost."""
        if self.per_hour is None or self.billable_seconds is None:
            return None
        return self.per_hour / _HOUR * self.billable_seconds

    @property
    def samples_per_second(self) -> float | None:
        """Throughput of all ranks."""
        if self.step is None or self.samples_per_step is None:
            return None
        return self.samples_per_step / self.step.mean

    def metrics_at(self, dollars: float) -> dict[str, float]:
        """Return the last value of each metric when the job had cost so many USD."""
        seconds = dollars / self.per_hour * _HOUR if self.per_hour else 0.0
        until = {
            name: [value for time, value in points if time <= seconds]
            for name, points in self.metrics.items()
        }
        return {name: values[-1] for name, values in until.items() if values}


def read_compared_job(job: Job) -> ComparedJob:
    """Return what a comparison needs of a job; raises JobNotFound or the platform's error."""
    reader = MetricReader(job.description(), own=True)
    series = CollectedSeries()
    evidence = read_evidence(job, lambda line: series.add_line(line, reader))
    return job_with_prices(job, evidence, series)


def job_with_prices(job: Job, evidence: JobEvidence, series: CollectedSeries) -> ComparedJob:
    """Return a job with its prices, from the evidence on it and the values of its metrics."""
    description = job.description()
    day = day_created(description)
    cost = catalogue.estimate(
        ((each.name, each.instance_type, each.count) for each in evidence.groups),
        catalogue.price_list(day),
        evidence.region,
        day,
    )
    billed = job.cost(description) if evidence.bills else None
    seconds = billed.billable_seconds if billed else description.get("BillableTimeInSeconds")
    spot = ", spot" if description.get("EnableManagedSpotTraining") else ""
    return ComparedJob(
        job_name=job.name,
        status=evidence.status,
        place=(evidence.region if evidence.bills else "this machine") + spot,
        is_priced_by_type=not evidence.bills,
        groups=tuple(map(_group, evidence.groups, cost.groups)),
        step=evidence.step,
        samples_per_step=evidence.samples_per_step,
        billable_seconds=seconds,
        prices=cost.sources,
        metrics={
            name: [(time - (series.begin or 0.0), value) for time, value in series.by_time(name)]
            for name in series.names
            if name.startswith(_OF_THE_MODEL) or name in metric_patterns(description)
        },
    )


def _group(group: GroupUse, cost: catalogue.GroupCost) -> ComparedGroup:
    return ComparedGroup(
        name=group.name,
        instance_type=group.instance_type,
        count=group.count,
        trains=group.trains,
        per_hour=cost.per_hour,
        idle_cpu=None if group.cpu is None else max(0.0, 1 - group.cpu),
        idle_gpu=None if group.gpu is None else max(0.0, 1 - group.gpu),
    )
