"""The cause that limits the steps of a job, from its evidence. Pure; "not sure" without proof.

The order of the rules is that of the strength of their evidence:

1. One host or rank that takes longer than the others holds up all of them, whatever it does.
2. The measured wait for data. A step that waits for batches is input-bound, or storage-bound if
   those who prepare them wait for disks or a network instead of computing.
3. The measured times of a task's steps: computing, and waiting for other ranks.
4. The use of CPUs and accelerators alone, which is all that CloudWatch has of other SDKs' jobs.
   CPUs near 100 % while the accelerators idle are a CPU bottleneck. Idle CPUs beside idle
   accelerators have several possible causes, so no cause is named.
"""

from __future__ import annotations

import enum
import statistics
from dataclasses import dataclass, replace

from launcher.client.planning.diagnosis.job_evidence import DataWait, GroupUse, JobEvidence, mean_of
from launcher.shared import FEWEST_STEPS, Bound

#: Fewer values of a host are no evidence: five minutes of CloudWatch, 25 seconds of a local job.
FEWEST_POINTS = 5
#: CPUs that are busy for this share of the time are saturated. Not 1: a host pauses between epochs,
#: for evaluations and for checkpoints, and its mean includes these.
BUSY_CPU = 0.85
#: CPUs that are busy for less than this share have time left, so that they hold up nothing.
IDLE_CPU = 0.6
#: Accelerators that are busy for this share of the time are the limit. NVML and CloudWatch count
#: the time in which any kernel runs, so that a limiting accelerator shows nearly 1.
BUSY_GPU = 0.85
#: Accelerators that are busy for less than this share of the time wait for something. AWS's
#: published experiment has 0.45 with a CPU bottleneck, and 0.74 when that is removed.
IDLE_GPU = 0.7
#: A wait for data of this share limits a step: below it, nine tenths are something else.
_WORTH_IT = 0.1
#: A step that waits for other ranks for this share is communication-bound: to halve that time would
#: save an eighth of the cost.
_COMMUNICATION = 0.25
#: A step that computes for this share leaves nothing else worth changing.
_COMPUTING = 0.7
#: A rank is slow if it takes this many times as long as the others. Equal hosts differ by a few
#: percent, and a rank's share of the samples by one batch.
_SLOW_RANK = 1.5
#: A host's accelerators differ from those of the other hosts if their shares do by this much.
_UNEVEN = 0.25
#: Fewer measured steps of a rank than this are no evidence, and more than _MANY_STEPS are sure.
_FEW_STEPS, _MANY_STEPS = 5, 20
#: A figure is far from its threshold if it is beyond it by this share of the threshold.
_CLEAR = 0.5


class StepLimit(str, enum.Enum):
    """The cause that limits the steps of a job."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"
    COMMUNICATION = "communication-bound"
    STORAGE = "storage-bound"
    IMBALANCED = "imbalanced"
    NOT_SURE = "not sure"


class Confidence(str, enum.Enum):
    """The strength of a finding's evidence.

    HIGH: measured, and far from the threshold. MEDIUM: measured near a threshold, or concluded from
    the use of the machines. LOW: figures that contradict each other, or have another explanation.
    NONE: nothing was found.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The cause, how sure it is, and the figures that show it, as a sentence.

    culprit: the slow host or rank, such as "algo-2" or "rank 3"; None without one.
    """

    limit: StepLimit
    confidence: Confidence
    why: str
    culprit: str | None = None


def find_limit(evidence: JobEvidence) -> Finding:
    """Return the cause that the evidence shows, or NOT_SURE."""
    for rule in (_slow_data_host, _slow_rank, _waits_for_data, _measured_steps, _use):
        if found := rule(evidence):
            return found
    return Finding(
        limit=StepLimit.NOT_SURE, confidence=Confidence.NONE, why=_why_not_sure(evidence)
    )


def known_wait(evidence: JobEvidence) -> DataWait | None:
    """Return the wait for data if enough steps were measured."""
    data = evidence.data
    if data is None or data.bound is Bound.TOO_SHORT:
        return None
    return data if data.steps >= FEWEST_STEPS or data.minutes >= FEWEST_POINTS else None


def has_use(groups: tuple[GroupUse, ...]) -> bool:
    """Return whether the hosts of groups have figures enough to judge by."""
    return bool(groups) and all(group.points >= FEWEST_POINTS for group in groups)


def _slow_data_host(evidence: JobEvidence) -> Finding | None:
    data = known_wait(evidence)
    if data is None or data.bound is not Bound.SLOW_HOST:
        return None
    confidence = Confidence.HIGH if data.margin >= _CLEAR else Confidence.MEDIUM
    return Finding(
        limit=StepLimit.IMBALANCED, confidence=confidence, why=data.text, culprit=data.slowest
    )


def _slow_rank(evidence: JobEvidence) -> Finding | None:
    """Find a rank whose own part of a step takes much longer than that of the others.

    That is its computing, and its wait for data if it loads them itself. Data hosts serve one rank
    after the other, so that one waits for them longest, however alike the ranks are.
    """
    ranks = [
        replace(each, data_wait=0.0) if evidence.feeds else each
        for each in evidence.ranks
        if each.steps >= _FEW_STEPS
    ]
    if len(ranks) < 2:
        return None
    slow = max(ranks, key=lambda each: each.own)
    usual = statistics.median(each.own for each in ranks if each is not slow)
    if slow.own < _SLOW_RANK * usual or slow.own - usual < _WORTH_IT * slow.step:
        return None
    part = "waits for data" if slow.data_wait > slow.compute else "computes"
    is_sure = min(each.steps for each in ranks) >= _MANY_STEPS
    return Finding(
        limit=StepLimit.IMBALANCED,
        confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
        why=f"rank {slow.rank} on {slow.host} {part} for {_ms(slow.own)} of a step, the other "
        f"ranks need {_ms(usual)} and wait for it",
        culprit=f"rank {slow.rank} on {slow.host}",
    )


def _waits_for_data(evidence: JobEvidence) -> Finding | None:
    data = known_wait(evidence)
    if data is None or data.share < _WORTH_IT or _waits_longer_for_ranks(evidence, data):
        return None
    is_unexplained = data.bound in (None, Bound.UNKNOWN)
    limit = StepLimit.STORAGE if _waits_for_storage(evidence, data) else StepLimit.INPUT
    gpu = mean_of(evidence.train, lambda group: group.gpu)
    contradicts = gpu is not None and gpu >= BUSY_GPU and data.share > 1 - BUSY_GPU
    if is_unexplained and (confirmed := _busy_cpus(evidence)):
        return replace(confirmed, why=f"{confirmed.why}; {data.share:.0%} of the time is waited")
    if is_unexplained or contradicts:
        confidence = Confidence.LOW
    else:
        is_far = data.share >= _WORTH_IT * (1 + _CLEAR) and data.margin >= _CLEAR
        confidence = Confidence.HIGH if is_far else Confidence.MEDIUM
    why = f"{data.share:.0%} of the time of {data.basis} is spent waiting for data"
    if limit is StepLimit.STORAGE:
        why += ", and what prepares it waits for disks or a network, not for a CPU"
    if contradicts:
        why += f", although the accelerators are {gpu:.0%} busy"
    return Finding(limit=limit, confidence=confidence, why=why)


def _waits_longer_for_ranks(evidence: JobEvidence, data: DataWait) -> bool:
    """Return whether a task's steps wait for other ranks, and longer than for data."""
    ranks = [each for each in evidence.ranks if each.steps >= _FEW_STEPS]
    if len(ranks) < 2:
        return False
    waits = sum(each.communication or 0.0 for each in ranks) / sum(each.step for each in ranks)
    return waits >= max(_COMMUNICATION, data.share)


def _waits_for_storage(evidence: JobEvidence, data: DataWait) -> bool:
    """Return whether the batches wait for disks or a network.

    A rank that loads its data itself uses a CPU while it prepares a batch. Where that was not
    measured, but all that its host used during the whole step is less than half of the wait, the
    wait was not for a CPU.
    """
    if data.bound in (Bound.SENDING, Bound.RECEIVER):
        return False
    loads_itself = data.bound is Bound.LOADING or (data.bound is None and not evidence.feeds)
    if data.is_waiting is not None or not loads_itself:
        return bool(data.is_waiting)
    if not has_use(evidence.train):
        return False
    used = [
        group.cpu * group.vcpus * group.count
        for group in evidence.train
        if group.cpu is not None and group.vcpus
    ]
    return len(used) == len(evidence.train) and sum(used) < data.share / 2 * max(
        evidence.rank_count, 1
    )


def _measured_steps(evidence: JobEvidence) -> Finding | None:
    """Find the cause in the times of a task's steps."""
    ranks = [each for each in evidence.ranks if each.steps >= _FEW_STEPS]
    if not ranks or any(each.communication is None for each in ranks):
        return None
    step = statistics.fmean(each.step for each in ranks)
    compute = statistics.fmean(each.compute for each in ranks) / max(step, 1e-9)
    waits = statistics.fmean(each.communication or 0.0 for each in ranks) / max(step, 1e-9)
    data = statistics.fmean(each.data_wait for each in ranks) / max(step, 1e-9)
    is_sure = min(each.steps for each in ranks) >= _MANY_STEPS
    if data >= max(_WORTH_IT, waits):
        is_clear = is_sure and data >= _WORTH_IT * (1 + _CLEAR)
        return Finding(
            limit=StepLimit.INPUT,
            confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
            why=f"the ranks wait for data for {data:.0%} of a step of {_ms(step)}",
        )
    if len(ranks) > 1 and waits >= _COMMUNICATION:
        is_clear = is_sure and waits >= _COMMUNICATION * (1 + _CLEAR)
        return Finding(
            limit=StepLimit.COMMUNICATION,
            confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
            why=f"the ranks wait for each other for {waits:.0%} of a step of {_ms(step)}, and all "
            "of them compute equally long",
        )
    if compute >= _COMPUTING:
        return Finding(
            limit=StepLimit.COMPUTE,
            confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
            why=f"the ranks compute for {compute:.0%} of a step of {_ms(step)}, and wait for "
            f"data for {data:.1%}",
        )
    return None


def _use(evidence: JobEvidence) -> Finding | None:
    """Find the cause in the use of CPUs and accelerators."""
    train = evidence.train
    if not has_use(train):
        return _without_use(evidence)
    gpu = mean_of(train, lambda group: group.gpu)
    if gpu is None:
        return _without_use(evidence)
    if gpu >= BUSY_GPU:
        return _busy_accelerators(evidence, gpu)
    if (outlier := _outlier_host(train)) is not None:
        return outlier
    return None if known_wait(evidence) else _busy_cpus(evidence)


def _busy_cpus(evidence: JobEvidence) -> Finding | None:
    """Find CPUs near 100 % beside idle accelerators."""
    train, feeds = evidence.train, evidence.feeds
    gpu = mean_of(train, lambda group: group.gpu)
    if not has_use(train) or gpu is None or gpu >= IDLE_GPU:
        return None
    cpu = mean_of(train, lambda group: group.cpu)
    busiest = [("train", cpu)]
    if has_use(feeds):
        busiest.append(("data", mean_of(feeds, lambda group: group.cpu)))
    for place, share in busiest:
        if share is not None and share >= BUSY_CPU:
            is_clear = share >= BUSY_CPU + 0.05 and gpu <= IDLE_GPU - 0.1
            return Finding(
                limit=StepLimit.INPUT,
                confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
                why=f"the CPUs of the {place} hosts are {share:.0%} busy, and the accelerators "
                f"only {gpu:.0%}: they wait for their batches",
            )
    return None


def _busy_accelerators(evidence: JobEvidence, gpu: float) -> Finding:
    data = known_wait(evidence)
    is_alone = _is_one_rank(evidence)
    why = f"the accelerators are {gpu:.0%} busy"
    if data is not None:
        why += f", and {data.share:.1%} of the time is spent waiting for data"
    if not is_alone:
        why += "; a wait for another rank looks busy too"
    is_sure = is_alone and data is not None
    return Finding(
        limit=StepLimit.COMPUTE,
        confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
        why=why,
    )


def _is_one_rank(evidence: JobEvidence) -> bool:
    return evidence.rank_count == 1 and sum(group.count for group in evidence.train) == 1


def _outlier_host(train: tuple[GroupUse, ...]) -> Finding | None:
    """Find a host whose accelerators are used otherwise than those of the hosts beside it."""
    shares = {
        each.host: each.gpu for group in train for each in group.hosts if each.gpu is not None
    }
    if len(shares) < 3:  # of two that differ, either may be the outlier
        return None
    usual = statistics.median(shares.values())
    outlier = max(shares, key=lambda host: abs(shares[host] - usual))
    if abs(shares[outlier] - usual) < _UNEVEN:
        return None
    return Finding(
        limit=StepLimit.IMBALANCED,
        confidence=Confidence.LOW,
        why=f"the accelerators of {outlier} are {shares[outlier]:.0%} busy, those of the other "
        f"hosts {usual:.0%}",
        culprit=outlier,
    )


def _without_use(evidence: JobEvidence) -> Finding | None:
    """Conclude from the wait for data alone, in a job of one rank."""
    data = known_wait(evidence)
    if data is None or data.bound is None or not _is_one_rank(evidence):
        return None
    if data.share >= _WORTH_IT:
        return None
    return Finding(
        limit=StepLimit.COMPUTE,
        confidence=Confidence.MEDIUM,
        why=f"only {data.share:.1%} of the time of {data.basis} is spent waiting for data, "
        "and a single rank waits for no other",
    )


def _why_not_sure(evidence: JobEvidence) -> str:
    cpu = mean_of(evidence.train, lambda group: group.cpu)
    gpu = mean_of(evidence.train, lambda group: group.gpu)
    data = known_wait(evidence)
    if gpu is None and data is not None and data.share < _WORTH_IT:
        return (
            f"the ranks wait for data for only {data.share:.1%} of the time, but a script does not "
            "measure computing and waits for other ranks apart"
        )
    if not has_use(evidence.train):
        return "there are too few figures of the train hosts"
    if gpu is None:
        return "there are no figures of accelerators, and the times of the steps show no cause"
    busy = f"the accelerators are {gpu:.0%} busy"
    if gpu >= IDLE_GPU:
        return f"{busy}, between waiting and computing"
    if cpu is None or cpu >= IDLE_CPU:
        percent = "" if cpu is None else f" and the CPUs {cpu:.0%}"
        return f"{busy}{percent}, and nothing else is known"
    if data is not None:
        return (
            f"{busy} and the CPUs {cpu:.0%}, and the step does not wait for data: other ranks, "
            "small kernels or the script's own code are left"
        )
    return (
        f"{busy} and the CPUs {cpu:.0%}: storage, other ranks, or a loader with few processes "
        "may be the cause"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
