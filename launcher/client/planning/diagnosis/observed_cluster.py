"""Turn an observed job into the planner's workload: what its step needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from launcher.client import catalogue
from launcher.client.catalogue import Price
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.cluster_candidates import Candidate, can_train, priced_cluster
from launcher.client.planning.plans.step_model import GroupShape, family
from launcher.client.planning.workloads.workload import Workload
from launcher.shared import Cause, has_use

#: An accelerator computes for at least this part of the time in which any kernel runs: in AWS's
#: published experiment the same step shows 86 ms of them before and 64 ms after its data arrives in
#: time.
_LEAST_COMPUTING = 0.74
#: Share by which CPU seconds may be off, as in a profile of a job that ran: they include the
#: script's own, and sending and receiving.
_UNCERTAINTY = 0.15
#: A prediction of the cluster that ran, which is this far from its observed step, is not trusted.
_TRUSTED = 0.25


@dataclass(frozen=True, kw_only=True)
class ObservedCluster:
    """A job's hosts with their prices, and the workload that its use of them shows.

    step_seconds: of a step as it is, the baseline of predictions. Where none was timed, it is taken
    to last a second, and only ratios hold. today: the day of the predictions.
    """

    workload: Workload
    train: GroupShape
    train_price: Price
    data: GroupShape | None
    data_price: Price | None
    region: str
    step_seconds: float
    today: date

    @property
    def now(self) -> Candidate:
        """The cluster as it is; its step is the model's."""
        return self.with_data(self.data, self.data_price)

    def with_data(self, data: GroupShape | None, price: Price | None) -> Candidate:
        """Return the same train hosts with another data group, or none."""
        return priced_cluster(self.workload, self.region, self.train, self.train_price, data, price)

    @property
    def per_hour(self) -> float:
        """Dollars per hour of all hosts."""
        return self.now.per_hour


def observe_cluster(evidence: JobEvidence) -> ObservedCluster | None:
    """Return a job's cluster; None if its types, prices or figures do not suffice for a plan.

    None also for a cluster that costs nothing: a relative change of price has no meaning.

    The planner compares clusters of one train group with accelerators, and one data group or none.
    """
    if not evidence.bills or (groups := priced_groups(evidence)) is None:
        return None
    (train, train_price), (data, data_price) = groups
    workload = _workload(evidence, train.instance)
    if workload is None or not can_train(workload, train.instance):
        return None
    seen = evidence.step_seconds or 1.0
    found = ObservedCluster(
        workload=workload,
        train=train,
        train_price=train_price,
        data=data,
        data_price=data_price,
        region=evidence.region,
        step_seconds=seen,
        today=evidence.read_on,
    )
    if not found.per_hour:
        return None
    if workload.cpus_per_rank:  # a rank that loads its data itself, which no cluster does better
        return found
    predicted = found.now.step.expected
    if abs(predicted / seen - 1) > _TRUSTED:
        return None
    return replace(found, step_seconds=predicted)


def priced_groups(
    evidence: JobEvidence,
) -> tuple[tuple[GroupShape, Price], tuple[GroupShape, Price] | tuple[None, None]] | None:
    """Return the group that trains and its price, and those of the data group if there is one.

    None for other groups, and where a type or its price is unknown.
    """
    if len(evidence.train) != 1 or len(evidence.feeds) > 1:
        return None
    prices, found = catalogue.price_list(), []
    for group in (*evidence.train, *evidence.feeds):
        instance = catalogue.find(group.instance_type)
        price = prices.find(group.instance_type, evidence.region)
        if instance is None or price is None:
            return None
        found.append((GroupShape(instance=instance, count=group.count), price))
    return found[0], found[1] if len(found) > 1 else (None, None)


def _workload(evidence: JobEvidence, instance: catalogue.InstanceType) -> Workload | None:
    """Return what a step needs of CPUs and of each accelerator, as one sample per rank."""
    step = evidence.step_seconds or 1.0
    ranks = evidence.train[0].count * instance.processes
    needs = _needs_of_own_loading(evidence, step) or _needs_of_use(evidence, step, ranks)
    if needs is None:
        return None
    cpu, gpu, cpus_per_rank = needs
    data = evidence.data
    return Workload(
        batch_size=1,
        cpu_seconds_per_sample=cpu,
        bytes_per_batch=data.bytes_per_batch if data else 0.0,
        gpu_seconds_per_step={instance.accelerator_name or "": gpu},
        cpu_speed={family(instance): 1.0},
        cpus_per_rank=cpus_per_rank,
    )


def _needs_of_own_loading(
    evidence: JobEvidence, step: float
) -> tuple[Measure, Measure, float] | None:
    """Return the CPU and accelerator seconds of ranks that load their data themselves.

    They do nothing else meanwhile: the wait is the preparation, and the rest is the computing.
    """
    data = evidence.known_wait
    if data is None or data.bound is not Cause.LOADING:
        return None
    return (
        Measure.within(data.share * step, _UNCERTAINTY),
        Measure.exact((1 - data.share) * step),
        1.0,
    )


def _needs_of_use(
    evidence: JobEvidence, step: float, ranks: int
) -> tuple[Measure, Measure, float] | None:
    """Return the CPU seconds of a rank and its accelerator's from their shares of a step."""
    share, groups = evidence.train[0].gpu, (*evidence.train, *evidence.feeds)
    if not has_use(groups) or share is None:
        return None
    used = 0.0
    for group in groups:
        if group.cpu is None or not group.vcpus:
            return None
        used += group.cpu * group.vcpus * group.count
    gpu = share * step
    return (
        Measure.within(used * step / ranks, _UNCERTAINTY),
        Measure(mean=gpu, low=_LEAST_COMPUTING * gpu, high=gpu),
        0.0,  # what the ranks use themselves is part of the use
    )
