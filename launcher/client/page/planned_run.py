"""The plan for the workload of a job that ran, with the job itself among its clusters."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from launcher.client import catalogue
from launcher.client.catalogue import aws_regions, dollars_text
from launcher.client.planning import (
    ClusterPoint,
    ClusterScatter,
    ComparedGroup,
    ComparedJob,
    JobEvidence,
    JobFigures,
    Measure,
    Recommendation,
    Workload,
    amounts,
    can_train,
    observe_cluster,
    priced_cluster,
    priced_groups,
    profile_of_figures,
    recommend,
    recommendation_scatter,
)
from launcher.client.show import Block, Table, short_number, table_block, text_block
from launcher.errors import PlatformError

_HOUR, _MILLION = 3600, 1e6
_GIVE_ONE = "a workload that `launcher plan measure` has measured can be given with --workload"


@dataclass(frozen=True, kw_only=True)
class UnplannedRun:
    """A run without a plan. why: the reason, as a sentence without its full stop."""

    why: str


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """The clusters that were compared for a job's workload, and the job's own among them.

    source: of the workload. scatter: the clusters.
    run: the job's cluster with the hours and dollars of the same work at its measured step.
    step: the measured seconds. expected: those that the plan has for the job's cluster; None where
    the job ran on other hosts than its types name, or the plan cannot compare it.
    """

    source: str
    recommendation: Recommendation
    scatter: ClusterScatter
    run: ClusterPoint
    step: float
    expected: float | None

    @property
    def best(self) -> ClusterPoint | None:
        """The recommended cluster."""
        return next((each for each in self.scatter.points if each.is_best), None)


@dataclass(frozen=True, kw_only=True)
class _Demand:
    """A job's workload. samples: of it in a step of all ranks of the job."""

    workload: Workload
    samples: float
    source: str
    unit: str = "samples"


def plan_of_run(
    evidence: JobEvidence, priced: ComparedJob, figures: JobFigures, given: Workload | None = None
) -> PlannedRun | UnplannedRun:
    """Return the plan for a job's workload, for as many train hosts as it has.

    given: the workload, if the user has its file; else it follows from what the job's hosts used,
    or from what its data hosts and ranks counted on this machine.
    """
    step, per_hour = priced.step, priced.per_hour
    if step is None:
        return UnplannedRun(why="no step of the job was timed")
    if not per_hour:
        return UnplannedRun(why=_without_price(priced))
    demand = _demand(evidence, figures, given)
    if isinstance(demand, UnplannedRun):
        return demand
    train_hosts = sum(group.count for group in evidence.train)
    workload = _with_communication(demand.workload, evidence)
    places = {evidence.region} & aws_regions() or {"us-east-1"}  # of a job on this machine
    found = recommend(workload, regions=tuple(places), train_hosts=(train_hosts,))
    scatter = recommendation_scatter(found)
    if scatter is None:
        return UnplannedRun(why=found.reason)
    hours = _work(workload, demand.samples) * step.mean / _HOUR
    run = ClusterPoint(
        name=" with ".join(_groups(priced)),
        hours=hours,
        dollars=hours * per_hour,
        is_pareto=False,
        is_best=False,
    )
    return PlannedRun(
        source=demand.source,
        recommendation=found,
        scatter=replace(scatter, what=scatter.what.replace("samples", demand.unit)),
        run=run,
        step=step.mean,
        expected=_expected(evidence, priced, workload),
    )


def _with_communication(workload: Workload, evidence: JobEvidence) -> Workload:
    """Return a workload with what the job's ranks waited for each other; its steps had the rest."""
    if workload.communication_seconds_per_step is not None:
        return workload
    waits = [each.communication or 0.0 for each in evidence.ranks]
    measured = Measure.exact(statistics.fmean(waits) if waits else 0.0)
    return replace(workload, communication_seconds_per_step=measured)


def _without_price(priced: ComparedJob) -> str:
    unknown = [each.instance_type for each in priced.groups if each.per_hour is None]
    if unknown:
        return f"the price of {' and '.join(dict.fromkeys(unknown))} is unknown"
    return "the job costs nothing"


def _demand(
    evidence: JobEvidence, figures: JobFigures, given: Workload | None
) -> _Demand | UnplannedRun:
    if given is not None:
        samples = evidence.samples_per_step or _ranks(evidence) * given.batch_size
        return _Demand(workload=given, samples=samples, source="as given")
    if evidence.bills:
        cluster = observe_cluster(evidence)
        if cluster is None:
            return UnplannedRun(why=f"{_unobserved(evidence)}; {_GIVE_ONE}")
        return _Demand(
            workload=cluster.workload,
            samples=_ranks(evidence),
            source="from the use of the job's hosts",
            unit="batches of a rank",  # its workload has one sample in a batch
        )
    return _measured_here(evidence, figures)


def _measured_here(evidence: JobEvidence, figures: JobFigures) -> _Demand | UnplannedRun:
    """Return the demand that a job of this machine measured, as `profile --from-job` does."""
    try:
        profile = profile_of_figures(evidence.job_name, figures)
    except PlatformError as error:
        return UnplannedRun(why=str(error))
    if not profile.gpu_seconds:
        why = "the job has no seconds of a step on an accelerator of the catalogue"
        return UnplannedRun(why=f"{why}; {_GIVE_ONE}")
    workload = profile.workload()
    samples = evidence.samples_per_step or _ranks(evidence) * workload.batch_size
    return _Demand(workload=workload, samples=samples, source="from what the job's hosts measured")


def _unobserved(evidence: JobEvidence) -> str:
    """Return why what the hosts used is not enough for a plan."""
    if len(evidence.train) != 1 or len(evidence.feeds) > 1:
        return "the plan compares clusters of one group that trains and one data group or none"
    train = evidence.train[0]
    instance = catalogue.find(train.instance_type)
    if instance is None or not instance.accelerators:
        return f"the plan compares accelerators, and {train.instance_type} has none"
    if train.cpu is None or train.gpu is None:
        return "the use of the job's CPUs or accelerators is unknown"
    return "the use of the job's CPUs and accelerators does not explain how long its steps took"


def _ranks(evidence: JobEvidence) -> int:
    """Return the trainer processes of the job: one for each accelerator core of its types."""
    types = ((group.count, catalogue.find(group.instance_type)) for group in evidence.train)
    return sum(count * (instance.processes if instance else 1) for count, instance in types)


def _work(workload: Workload, samples: float) -> float:
    """Return the steps of the whole training, if it is known, or else of a million samples."""
    if workload.samples_per_epoch is None or workload.epochs is None:
        return _MILLION / samples
    return workload.epochs * math.ceil(workload.samples_per_epoch / samples)


def _groups(priced: ComparedJob) -> Iterator[str]:
    for trains in (True, False):
        groups: list[ComparedGroup] = [each for each in priced.groups if each.trains is trains]
        if groups:
            yield " and ".join(each.hosts for each in groups)


def _expected(evidence: JobEvidence, priced: ComparedJob, workload: Workload) -> float | None:
    """Return the plan's seconds of a step on the job's hosts."""
    if priced.is_priced_by_type or (groups := priced_groups(evidence)) is None:
        return None
    (train, train_price), (data, data_price) = groups
    if not can_train(workload, train.instance):
        return None
    cluster = priced_cluster(workload, evidence.region, train, train_price, data, data_price)
    expected = cluster.step.expected
    return expected if math.isfinite(expected) else None


def plan_blocks(plan: PlannedRun | UnplannedRun) -> list[Block]:
    """Return the blocks; for a run without a plan, the reason."""
    if isinstance(plan, UnplannedRun):
        return [text_block(f"Not planned: {plan.why}.")]
    table = Table(
        title="clusters of the plan",
        columns=("cluster", "hours", "cost", "remark"),
        numbers=("hours", "cost"),
    )
    rows = [
        (point.name, short_number(point.hours), dollars_text(point.dollars), remark)
        for remark, point in _rows(plan)
    ]
    about = (
        f"The workload is {plan.source}. {plan.recommendation.compared:,} clusters with as many "
        "train hosts were compared by price per sample. This run is drawn at its measured step."
    )
    return [
        *(text_block(text) for text in _words(plan)),
        plan.scatter.block(plan.run),
        table_block(table, rows),
        text_block(about, "faint"),
    ]


def _words(plan: PlannedRun) -> Iterator[str]:
    best, run = plan.best, plan.run
    if best is None:
        yield f"{plan.recommendation.answer}: {plan.recommendation.reason}"
    elif best.name == run.name:
        yield f"This run's cluster is the recommended one: {best.name}"
        yield f"{plan.recommendation.reason}."
    else:
        yield f"Recommended: {best.name}"
        yield f"{plan.recommendation.reason}."
        yield (
            f"For {plan.scatter.what} it would take {amounts(best)}; this run's {run.name} takes "
            f"{amounts(run)}."
        )
    if plan.expected is not None:
        yield (
            f"The plan expects a step of {plan.expected * 1e3:,.4g} ms on this run's cluster; "
            f"{plan.step * 1e3:,.4g} ms were measured."
        )


def _rows(plan: PlannedRun) -> Iterator[tuple[str, ClusterPoint]]:
    """Yield the run, the recommended cluster, and those that none is cheaper and faster than."""
    yield "this run", plan.run
    if plan.best is not None:
        yield "recommended", plan.best
    pareto = (each for each in plan.scatter.points if each.is_pareto and not each.is_best)
    yield from (("", point) for point in sorted(pareto, key=lambda each: each.hours))
