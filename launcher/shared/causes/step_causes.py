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

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.shared.causes.cause import (
    BUSY_CPU,
    BUSY_GPU,
    CLEAR,
    COMMUNICATING,
    FEW_STEPS,
    FEWEST_POINTS,
    FEWEST_STEPS,
    IDLE_CPU,
    IDLE_GPU,
    IDLE_RANK,
    MANY_STEPS,
    MOSTLY_COMPUTING,
    OTHER_WORK,
    SLOW_RANK,
    UNEVEN,
    UNUSED_GPU,
    USED_GPU,
    WORTH_IT,
    Cause,
    Confidence,
    Finding,
    StepLimit,
)
from launcher.shared.causes.cause_evidence import (
    DataWait,
    Evidence,
    GroupUse,
    PassTimes,
    has_use,
    mean_of,
)
from launcher.shared.causes.data_wait import judge_own_loading
from launcher.shared.causes.phase_causes import (
    judge_own_waits,
    judge_phases,
    loading_kind,
    seen_loading,
)


def judge(evidence: Evidence) -> Finding:
    """Return the cause that the evidence shows, or NOT_SURE."""
    for rule in _RULES:
        if found := rule(evidence):
            return _beside_other_work(found, evidence)
    return Finding(cause=Cause.NOT_SURE, confidence=Confidence.NONE, why=_why_not_sure(evidence))


def _slow_data_host(evidence: Evidence) -> Finding | None:
    data = evidence.known_wait
    if data is None or data.bound is not Cause.SLOW_HOST:
        return None
    confidence = Confidence.HIGH if data.margin >= CLEAR else Confidence.MEDIUM
    return Finding(
        cause=Cause.SLOW_HOST, confidence=confidence, why=data.text, culprit=data.slowest
    )


def _slow_rank(evidence: Evidence) -> Finding | None:
    """Find a rank whose own part of a step takes much longer than that of the others.

    That is its computing, and its wait for data if it loads them itself. Data hosts serve one rank
    after the other, so that one waits for them longest, however alike the ranks are.
    """
    ranks = [
        replace(each, data_wait=0.0) if evidence.feeds else each
        for each in evidence.ranks
        if each.steps >= FEW_STEPS
    ]
    if len(ranks) < 2:
        return None
    slow = max(ranks, key=lambda each: each.own)
    usual = statistics.median(each.own for each in ranks if each is not slow)
    if slow.own < SLOW_RANK * usual or slow.own - usual < WORTH_IT * slow.step:
        return None
    part = "waits for data" if slow.data_wait > slow.compute else "computes"
    is_sure = min(each.steps for each in ranks) >= MANY_STEPS
    return Finding(
        cause=Cause.SLOW_RANK,
        confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
        why=f"rank {slow.rank} on {slow.host} {part} for {_ms(slow.own)} of a step, the other "
        f"ranks need {_ms(usual)} and wait for it",
        culprit=f"rank {slow.rank} on {slow.host}",
    )


def _waits_for_data(evidence: Evidence) -> Finding | None:
    data = evidence.known_wait
    if data is None or data.share < WORTH_IT or _waits_longer_for_ranks(evidence, data):
        return None
    is_unexplained = data.bound in (None, Cause.UNKNOWN)
    seen, waits = seen_loading(evidence), _waits_for_storage(evidence, data)
    cause = Cause.STORAGE if waits else data.bound or Cause.UNKNOWN
    if seen is not None and data.bound in (Cause.LOADING, Cause.WORKERS, None):
        cause = seen[0]
    gpu = mean_of(evidence.train, lambda group: group.gpu)
    contradicts = gpu is not None and gpu >= BUSY_GPU and data.share > 1 - BUSY_GPU
    if is_unexplained and (confirmed := _busy_cpus(evidence)):
        return replace(confirmed, why=f"{confirmed.why}; {data.share:.0%} of the time is waited")
    if is_unexplained or contradicts:
        confidence = Confidence.LOW
    else:
        is_far = data.share >= WORTH_IT * (1 + CLEAR) and data.margin >= CLEAR
        confidence = Confidence.HIGH if is_far else Confidence.MEDIUM
    why = f"{data.share:.0%} of the time of {data.basis} is spent waiting for data"
    if seen is not None and cause is seen[0]:
        why += f", and {seen[1]}"
    elif cause is Cause.STORAGE:
        why += ", and what prepares it waits for disks or a network, not for a CPU"
    if contradicts:
        why += f", although the accelerators are {gpu:.0%} busy"
    return Finding(cause=cause, confidence=confidence, why=why)


def _waits_longer_for_ranks(evidence: Evidence, data: DataWait) -> bool:
    """Return whether a task's steps wait for other ranks, and longer than for data."""
    ranks = [each for each in evidence.ranks if each.steps >= FEW_STEPS]
    if len(ranks) < 2:
        return False
    waits = sum(each.communication or 0.0 for each in ranks) / sum(each.step for each in ranks)
    return waits >= max(COMMUNICATING, data.share)


def _waits_for_storage(evidence: Evidence, data: DataWait) -> bool:
    """Return whether the batches wait for disks or a network.

    A rank that loads its data itself uses a CPU while it prepares a batch. Where that was not
    measured, but all that its host used during the whole step is less than half of the wait, the
    wait was not for a CPU.
    """
    if data.bound in (Cause.SENDING, Cause.RECEIVER):
        return False
    loads_itself = data.bound is Cause.LOADING or (data.bound is None and not evidence.feeds)
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


def _measured_steps(evidence: Evidence) -> Finding | None:
    """Find the cause in the times of a task's steps."""
    ranks = [each for each in evidence.ranks if each.steps >= FEW_STEPS]
    if not ranks or any(each.communication is None for each in ranks):
        return None
    step = statistics.fmean(each.step for each in ranks)
    compute = statistics.fmean(each.compute for each in ranks) / max(step, 1e-9)
    waits = statistics.fmean(each.communication or 0.0 for each in ranks) / max(step, 1e-9)
    data = statistics.fmean(each.data_wait for each in ranks) / max(step, 1e-9)
    is_sure = min(each.steps for each in ranks) >= MANY_STEPS
    if data >= max(WORTH_IT, waits):
        is_clear = is_sure and data >= WORTH_IT * (1 + CLEAR)
        return Finding(
            cause=Cause.UNKNOWN,
            confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
            why=f"the ranks wait for data for {data:.0%} of a step of {_ms(step)}",
        )
    if len(ranks) > 1 and waits >= COMMUNICATING:
        is_clear = is_sure and waits >= COMMUNICATING * (1 + CLEAR)
        return Finding(
            cause=Cause.COMMUNICATION,
            confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
            why=f"the ranks wait for each other for {waits:.0%} of a step of {_ms(step)}, and all "
            "of them compute equally long",
        )
    if compute >= MOSTLY_COMPUTING:
        return Finding(
            cause=Cause.COMPUTE,
            confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
            why=f"the ranks compute for {compute:.0%} of a step of {_ms(step)}, and wait for "
            f"data for {data:.1%}",
        )
    return None


def _use(evidence: Evidence) -> Finding | None:
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
    return None if evidence.known_wait else _busy_cpus(evidence)


def _busy_cpus(evidence: Evidence) -> Finding | None:
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
                cause=Cause.CPUS,
                confidence=Confidence.HIGH if is_clear else Confidence.MEDIUM,
                why=f"the CPUs of the {place} hosts are {share:.0%} busy, and the accelerators "
                f"only {gpu:.0%}: they wait for their batches",
            )
    return None


def _busy_accelerators(evidence: Evidence, gpu: float) -> Finding:
    data = evidence.known_wait
    is_alone = _is_one_rank(evidence)
    why = f"the accelerators are {gpu:.0%} busy"
    if data is not None:
        why += f", and {data.share:.1%} of the time is spent waiting for data"
    if not is_alone:
        why += "; a wait for another rank looks busy too"
    is_sure = is_alone and data is not None
    return Finding(
        cause=Cause.COMPUTE,
        confidence=Confidence.HIGH if is_sure else Confidence.MEDIUM,
        why=why,
    )


def _is_one_rank(evidence: Evidence) -> bool:
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
    if abs(shares[outlier] - usual) < UNEVEN:
        return None
    return Finding(
        cause=Cause.UNEVEN_HOST,
        confidence=Confidence.LOW,
        why=f"the accelerators of {outlier} are {shares[outlier]:.0%} busy, those of the other "
        f"hosts {usual:.0%}",
        culprit=outlier,
    )


def _without_use(evidence: Evidence) -> Finding | None:
    """Conclude from the wait for data alone, in a job of one rank."""
    data = evidence.known_wait
    if data is None or data.bound is None or not _is_one_rank(evidence):
        return None
    if data.share >= WORTH_IT:
        return None
    return Finding(
        cause=Cause.COMPUTE,
        confidence=Confidence.MEDIUM,
        why=f"only {data.share:.1%} of the time of {data.basis} is spent waiting for data, "
        "and a single rank waits for no other",
    )


def _why_not_sure(evidence: Evidence) -> str:
    cpu = mean_of(evidence.train, lambda group: group.cpu)
    gpu = mean_of(evidence.train, lambda group: group.gpu)
    data = evidence.known_wait
    if gpu is None and data is not None and data.share < WORTH_IT:
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


def close_own_loading(
    total: float,
    wait: float,
    steps: float,
    ranks: int,
    is_waiting: bool | None,
    *,
    passes: Sequence[Mapping[str, Any]],
) -> DataWait | None:
    """Return `judge_own_loading`'s answer as a job closes with it: a finer cause in its text.

    passes: fields of data_epoch events.
    """
    found = judge_own_loading(total, wait, steps, ranks, is_waiting)
    if found is None:
        return None
    times = tuple(map(PassTimes.of_event, passes))
    found = replace(found, kind=loading_kind(times))
    seen = judge(Evidence(job_name="", data=found, passes=times, rank_count=ranks))
    is_finer = seen.limit is StepLimit.STALLED or seen.cause in _FINER
    return replace(found, text=f"{found.text}; {seen.why}") if is_finer else found


_FINER = {Cause.LOCK, Cause.CHILD, Cause.NETWORK, Cause.SLEEP, Cause.INTERPRETER}


def _beside_other_work(finding: Finding, evidence: Evidence) -> Finding:
    """Return a finding that is less sure where other work takes the hosts' CPUs."""
    others = evidence.other_work
    if others is None or others < OTHER_WORK:
        return finding
    lower = {Confidence.HIGH: Confidence.MEDIUM, Confidence.MEDIUM: Confidence.LOW}
    return replace(
        finding,
        confidence=lower.get(finding.confidence, finding.confidence),
        why=f"{finding.why}; but other work uses {others:.0%} of the CPUs, and all are busy",
    )


def _idle_gpu(evidence: Evidence) -> Finding | None:
    for host in (host for group in evidence.train for host in group.hosts):
        if host.points < FEWEST_POINTS or len(host.each_gpu) < 2:
            continue
        idle = min(range(len(host.each_gpu)), key=host.each_gpu.__getitem__)
        usual = statistics.median(host.each_gpu)
        if host.each_gpu[idle] <= UNUSED_GPU and usual >= USED_GPU:
            return Finding(
                cause=Cause.IDLE_GPU,
                confidence=Confidence.HIGH,
                why=f"GPU {idle} of {host.host} is {host.each_gpu[idle]:.0%} busy, and the others "
                f"{usual:.0%}: no rank uses it",
                culprit=f"GPU {idle} on {host.host}",
            )
    return None


def _busy_without_accelerators(evidence: Evidence) -> Finding | None:
    """Find the CPUs that all do the computing."""
    train = evidence.train
    cpu = mean_of(train, lambda group: group.cpu)
    if not has_use(train) or any(group.is_accelerated for group in train) or cpu is None:
        return None
    if cpu < BUSY_CPU:
        return None
    return Finding(
        cause=Cause.COMPUTE,
        confidence=Confidence.MEDIUM,
        why=f"the CPUs of the train hosts are {cpu:.0%} busy, and they have no accelerators",
    )


def _hang(evidence: Evidence) -> Finding | None:
    if not evidence.hang:
        return None
    return Finding(cause=Cause.HANG, confidence=Confidence.HIGH, why=evidence.hang)


def _idle_rank(evidence: Evidence) -> Finding | None:
    """Find a rank that takes far fewer batches than the others."""
    steps = evidence.steps_by_rank
    if len(steps) < 2 or max(steps.values()) < FEWEST_STEPS:
        return None
    idle = min(steps, key=lambda rank: steps[rank])
    usual = statistics.median(count for rank, count in steps.items() if rank != idle)
    if steps[idle] > IDLE_RANK * usual:
        return None
    return Finding(
        cause=Cause.IDLE_RANK,
        confidence=Confidence.HIGH,
        why=f"rank {idle} took {steps[idle]} batches, and the other ranks {usual:.0f}",
        culprit=f"rank {idle}",
    )


_RULES = (
    *(_hang, _slow_data_host, _idle_rank, _idle_gpu, _slow_rank, judge_phases, _waits_for_data),
    *(judge_own_waits, _measured_steps, _use, _busy_without_accelerators),
)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
