"""Read the evidence on a job: its event lines, and the use of its hosts where CloudWatch has it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.jobs import (
    PERIOD_SECONDS,
    HostGroup,
    Job,
    data_groups,
    host_groups,
    records_from_cloudwatch,
)
from launcher.client.planning.diagnosis.event_evidence import EventEvidence
from launcher.client.planning.diagnosis.job_evidence import JobEvidence, UsePoint
from launcher.client.sessions import HasHostAverages
from launcher.errors import CloudError
from launcher.shared import (
    CODE_CHANNEL,
    WAIT_METRIC,
    DataWait,
    GroupUse,
    HostUse,
    JobDocument,
    Role,
)

if TYPE_CHECKING:
    from launcher.client.jobs import LogLine
    from launcher.shared import TrainingJobDescription

_CPU, _GPU = "CPUUtilization", "GPUUtilization"
#: CloudWatch's percent of one vCPU or GPU.
_PERCENT = 100.0


def read_evidence(job: Job, lines: Callable[[LogLine], None] | None = None) -> JobEvidence:
    """Return what is known of a job so far.

    lines: called with each line of its logs, which are read once.

    What cannot be read is named in `missing`. Raises JobNotFound, and the platform's error if the
    job cannot be described.
    """
    description = job.description()
    document = job.document()
    missing: list[str] = []
    events = _read_events(job, lines, missing)
    groups = host_groups(description)
    measured = _from_cloudwatch(job, description, groups, missing)
    sources = []
    if measured:
        times = max(measured.values(), key=len)
        sources.append(f"CloudWatch, every {_period([each.time for each in times])} s")
    if events.hosts or events.rank_count:
        sources.append("the logs of its hosts")
    span = events.first, events.last
    training = _training_groups(groups, document)
    data = events.data(data_groups(document)) or _wait_from_cloudwatch(job, missing)
    if data is None:
        missing.append("the wait for data: no rank has reported one, as launcher.data does")
    uses = tuple(
        _group_use(
            group,
            measured,
            events.hosts,
            trains=group.name in training,
            span=span,
            bills=job.session.platform.bills,
        )
        for group in groups
    )
    if not any(group.gpu is not None for group in uses):
        missing.append("the use of accelerators: neither NVML nor CloudWatch has figures of it")
    return JobEvidence(
        job_name=job.name,
        status=description["TrainingJobStatus"],
        region=job.session.region,
        read_on=catalogue.today(),
        bills=job.session.platform.bills,
        groups=uses,
        ranks=tuple(events.ranks()),
        rank_count=events.rank_count,
        data=data,
        passes=events.passes,
        steps_by_rank=events.steps_by_rank,
        hang=events.hang,
        shares_machine=not job.session.platform.bills,
        step=events.step,
        samples_per_step=events.samples_per_step,
        input_modes=_input_modes(description),
        measured=measured,
        sources=tuple(sources),
        missing=tuple(missing),
    )


def _read_events(
    job: Job, lines: Callable[[LogLine], None] | None, missing: list[str]
) -> EventEvidence:
    events = EventEvidence()
    try:
        for line in job.logs():
            events.add(line)
            if lines is not None:
                lines(line)
    except CloudError as error:
        missing.append(f"the logs: {error.headline}")
    return events


def _from_cloudwatch(
    job: Job, description: TrainingJobDescription, groups: Sequence[HostGroup], missing: list[str]
) -> dict[str, list[UsePoint]]:
    """Return the use of each host that CloudWatch has values of."""
    session = job.session
    if not isinstance(session, HasHostAverages):
        return {}
    start, end = _training_time(description)
    hosts = [host for group in groups for host in group.hosts]
    try:
        found = session.host_averages(job.name, hosts, (_CPU, _GPU), start, end, PERIOD_SECONDS)
    except CloudError as error:
        missing.append(f"CloudWatch's figures: {error.headline}")
        return {}
    points = {
        host: _points(
            catalogue.find(group.instance_type),
            {point.time: point.value for point in found.get((host, _CPU), ())},
            {point.time: point.value for point in found.get((host, _GPU), ())},
        )
        for group in groups
        for host in group.hosts
    }
    return {host: each for host, each in points.items() if each}


def _wait_from_cloudwatch(job: Job, missing: list[str]) -> DataWait | None:
    """Return the wait for data as SageMaker has read it from logs that cannot be read here."""
    try:
        found = records_from_cloudwatch(job, [WAIT_METRIC])
    except CloudError as error:
        missing.append(f"CloudWatch's {WAIT_METRIC}: {error.headline}")
        return None
    shares = [record.value for record in found[1:]]  # the first has the wait for the first batch
    if not shares:
        return None
    seconds = _period([record.time for record in found]) * len(shares)
    return DataWait(
        share=statistics.fmean(shares), steps=0, seconds=float(seconds), minutes=seconds // 60
    )


def _period(times: Sequence[float]) -> int:
    """Return the seconds of the period of values by time: CloudWatch has longer ones of the past.

    A period without values is none.
    """
    steps = (round(later - earlier) for earlier, later in itertools.pairwise(times))
    return min((each for each in steps if each), default=PERIOD_SECONDS)


def _points(
    instance: catalogue.InstanceType | None,
    cpu: Mapping[float, float],
    gpu: Mapping[float, float],
) -> list[UsePoint]:
    """Return percent of one vCPU or GPU as shares of all of a host's."""
    vcpus = instance.vcpu if instance else None
    gpus = instance.accelerators if instance else 0
    return [
        UsePoint(
            time=time,
            cpu=cpu[time] / _PERCENT / vcpus if vcpus and time in cpu else None,
            gpu=gpu[time] / _PERCENT / gpus if gpus and time in gpu else None,
        )
        for time in sorted({*cpu, *gpu})
    ]


def _training_time(description: TrainingJobDescription) -> tuple[datetime, datetime]:
    """Return the times between which a described job trained, by its secondary statuses.

    A job on spot instances trains again after each interruption.
    """
    trained = [
        each
        for each in description.get("SecondaryStatusTransitions", ())
        if each.get("Status") == "Training" and "StartTime" in each
    ]
    if trained:
        end = trained[-1].get("EndTime") or datetime.now(timezone.utc)
        return trained[0]["StartTime"], end + timedelta(seconds=PERIOD_SECONDS)
    start = description.get("TrainingStartTime") or description["CreationTime"]
    end = description.get("TrainingEndTime") or datetime.now(timezone.utc)
    return start, end + timedelta(seconds=PERIOD_SECONDS)


def _training_groups(groups: Sequence[HostGroup], document: JobDocument | None) -> set[str]:
    """Return the names of the groups that train.

    Without roles, those whose types have accelerators; without any of these, all groups.
    """
    roles = document.roles if document else {}
    train = {group.name for group in groups if roles.get(group.name) is Role.TRAIN}
    if train:
        return train
    types = {group.name: catalogue.find(group.instance_type) for group in groups}
    accelerated = {name for name, type_ in types.items() if type_ and type_.accelerators}
    return accelerated or set(types)


def _group_use(
    group: HostGroup,
    measured: Mapping[str, list[UsePoint]],
    events: Mapping[str, list[UsePoint]],
    *,
    trains: bool,
    span: tuple[float | None, float | None],
    bills: bool,
) -> GroupUse:
    """Return the use of a group's hosts: as CloudWatch measured it, or else as they did.

    bills: the instance type is real, and not just the name of a host of this machine.
    """
    instance = catalogue.find(group.instance_type) if bills else None
    counted = [each.cpus for host in group.hosts for each in events.get(host, ()) if each.cpus]
    vcpus = instance.vcpu if instance and instance.vcpu else (counted[-1] if counted else None)
    uses = (
        _host_use(host, [measured.get(host, ()), events.get(host, ())], span)
        for host in group.hosts
    )
    return GroupUse(
        name=group.name,
        instance_type=group.instance_type,
        count=len(group.hosts),
        trains=trains,
        vcpus=vcpus,
        hosts=tuple(each for each in uses if each.points),
        is_accelerated=bool(instance.accelerators) if instance else bills,
    )


def _host_use(
    host: str,
    sources: Sequence[Sequence[UsePoint]],
    span: tuple[float | None, float | None],
) -> HostUse:
    """Return means while the job trained; each figure is that of the first source that has it."""
    steady = [_steady(points, span) for points in sources]
    cpu = next((values for each in steady if (values := _values(each, "cpu"))), [])
    gpu = next((values for each in steady if (values := _values(each, "gpu"))), [])
    longest = max(steady, key=len)
    each_gpu = zip(*(point.gpus for point in steady[-1] if point.gpus), strict=False)
    machine, own = (_values(steady[-1], figure) for figure in ("machine", "own"))
    return HostUse(
        host=host,
        cpu=statistics.fmean(cpu) if cpu else None,
        gpu=statistics.fmean(gpu) if gpu else None,
        points=min((len(values) for values in (cpu, gpu) if values), default=0),
        seconds=longest[-1].time - longest[0].time if longest else 0.0,
        each_gpu=tuple(statistics.fmean(values) for values in each_gpu),
        machine=(statistics.fmean(machine), statistics.fmean(own)) if machine and own else None,
    )


def _steady(
    points: Sequence[UsePoint], span: tuple[float | None, float | None]
) -> Sequence[UsePoint]:
    """Return the values while the job trained, without the first and last, which are partial."""
    first, last = span
    inside = [
        each
        for each in points
        if (first is None or each.time >= first) and (last is None or each.time <= last)
    ]
    return inside[1:-1]


def _values(points: Sequence[UsePoint], figure: str) -> list[float]:
    found = (getattr(each, figure) for each in points)
    return [value for value in found if value is not None]


def _input_modes(description: TrainingJobDescription) -> tuple[str, ...]:
    """Return how the channels of data are read: File, FastFile or Pipe."""
    default = description.get("AlgorithmSpecification", {}).get("TrainingInputMode", "File")
    modes = (
        channel.get("InputMode", default)
        for channel in description.get("InputDataConfig", [])
        if channel["ChannelName"] != CODE_CHANNEL
    )
    return tuple(dict.fromkeys(str(mode) for mode in modes))
