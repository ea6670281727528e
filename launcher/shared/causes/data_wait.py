"""The verdict on a job: did training wait for its data, why, and what would fix it? Pure.

It is right or silent: figures from which no cause follows give the verdict UNKNOWN, a job that was
too short to tell gets TOO_SHORT, and a script that computes next to nothing gets no verdict.

Derivation. The rank that waited most delays the others in every collective, so its clock counts: T
seconds inside its epochs, W of them inside the loader, C = T - W on everything else. The very first
batch waits for processes to start, not for workers, and is left out. The job was input-bound W / T
of the time.

Preparing a batch takes a worker w seconds (wall-clock mean over all workers), and the ranks took B
batches: B w worker-seconds, in T seconds. N workers were therefore busy B w / (N T) of the time.
Without any wait the same batches are needed within C seconds, by B w / C workers: the number that
the advice gives. It holds while workers are the bottleneck, that is, while they were busy. Where
they were not, more of them would change nothing, and the verdict names the cause instead: one slow
host, the starts of epochs, the receiver's memory, its process, or their sending. Sending is the
cause only if data flowed and the receiver's memory never was full: workers that wait for room in it
cannot send either, although the network is idle.

Where workers share their CPUs with others, w is longer than the work itself: the kernel reports how
long they were runnable without a CPU. That part is subtracted from w on both sides: fewer workers
would do with a CPU each, and fewer than N could run at a time. The rest is work or waiting (for
disks, for the network), and the CPU time separates the two.

Limits. The analysis does not see overlapping waits of ranks that never synchronise, counts the time
twice when two streams are read in turn within one loop, and cannot tell if the network can carry
the output of more workers.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from launcher.shared.causes.cause import (
    BLOCKED,
    CPU_STARVED,
    FEWEST_STEPS,
    FLOWING,
    FULL,
    NEGLIGIBLE,
    NOTHING_COMPUTED,
    SATURATED,
    SHORTEST,
    SLOW_HOST,
    STEADY,
    UNUSED_HOST,
    WORTH_IT,
    Cause,
)
from launcher.shared.causes.cause_evidence import DataWait
from launcher.shared.causes.observed_rates import ObservedRates

#: Margin kept when fewer workers are advised, because their load is never exactly even.
_SPARE = 1.1
#: What prepares the data of a job without a data group, for a sentence.
LOCAL_WORKERS = "the local workers"


def judge_own_loading(
    total: float, wait: float, steps: float, ranks: int, is_waiting: bool | None = None
) -> DataWait | None:
    """Judge a job without a data group; None with too little to judge by, or to compute.

    is_waiting: loading mostly waits for disks or a network; None if unmeasured.

    All of the wait is spent preparing batches in the rank itself, so `ranks` ranks need ranks W / C
    workers to have it done while they compute.
    """
    if steps < FEWEST_STEPS or total < SHORTEST:
        return None
    share = round(wait / total, 4)
    if share > NOTHING_COMPUTED:
        return None
    margin = _margin_of_wait(share)
    found = DataWait(share=share, busy=share, margin=margin, steps=round(steps), seconds=total)
    if share < NEGLIGIBLE:
        text = f"not input-bound ({share:.1%} waiting for data): a data group would not help"
        return replace(found, bound=Cause.NOTHING, more=0, text=text)
    more = math.ceil(ranks * wait / max(total - wait, 1e-9))
    unit = "vCPU"
    if is_waiting:
        unit = "worker" if more == 1 else "workers"
    text = (
        f"input-bound {share:.0%} of the time, as each rank loads its data itself"
        f"{', waiting for disks or a network' if is_waiting else ''}: about {more} {unit} in a "
        "data group would remove it"
    )
    return replace(found, bound=Cause.LOADING, more=more, text=text, is_waiting=is_waiting)


def judge_wait(rates: ObservedRates, group: str) -> DataWait | None:
    """Judge a job with a data group; None when the script computes next to nothing.

    group: the name of the group that prepares data, for the text.
    """
    if not rates.is_short and rates.wait_share > NOTHING_COMPUTED:
        return None
    return explain_wait(rates, group)


def explain_wait(rates: ObservedRates, group: str) -> DataWait:
    """Judge a job with a data group, also one whose script computes next to nothing.

    That one is told of no number of workers to add: it would be a multiple of those that it has.
    """
    if rates.is_short:
        text = f"too short to tell if data was waited for ({rates.total:.1f} s of reading)"
        return _wait(rates, Cause.TOO_SHORT, text, None, 0.0)
    if rates.wait_share < NEGLIGIBLE:
        spare = rates.workers - max(1, math.ceil(rates.needed * _SPARE))
        advice = f": {spare} fewer {_resource(rates, spare)} would do" if spare > 0 else ""
        text = f"not input-bound ({rates.wait_share:.1%} waiting for data){advice}"
        margin = _margin_of_wait(rates.wait_share)
        return _wait(rates, Cause.NOTHING, text, -spare if spare > 0 else 0, margin)
    bound, cause, more, margin = _cause(rates, group)
    if bound is Cause.WORKERS and rates.wait_share > NOTHING_COMPUTED:
        cause, more = f"{group} was {rates.busy:.0%} busy", None
    if bound is Cause.UNKNOWN and rates.wait_share < WORTH_IT:
        text = f"{rates.wait_share:.0%} of the time spent waiting for data"
    else:
        text = f"input-bound {rates.wait_share:.0%} of the time: {cause}"
    return _wait(rates, bound, text, more, min(margin, _margin_of_wait(rates.wait_share)))


def _margin_of_wait(share: float) -> float:
    return abs(share / NEGLIGIBLE - 1)


def _wait(
    rates: ObservedRates, bound: Cause, text: str, more: int | None, margin: float
) -> DataWait:
    return DataWait(
        share=round(rates.wait_share, 4),
        steps=round(min(rates.steps, rates.batches)),
        seconds=rates.total,
        bound=bound,
        busy=round(rates.busy, 4),
        more=more,
        margin=round(margin, 4),
        text=text,
        is_waiting=rates.is_waiting,
        kind=rates.kind,
        slowest=max(rates.seconds, key=lambda host: rates.seconds[host], default=None),
        bytes_per_batch=rates.bytes_per_batch,
    )


def _cause(rates: ObservedRates, group: str) -> tuple[Cause, str, int | None, float]:
    """Return the bottleneck, its description, the workers to add, and the margin."""
    if slow := _slow_host(rates):
        return slow
    if rates.busy >= SATURATED:
        more = max(1, math.ceil(rates.needed - rates.running))
        margin = (rates.busy - SATURATED) / (1 - SATURATED)
        return Cause.WORKERS, _more_workers(rates, group, more), more, margin
    return _imbalance(rates, group) or _sending(rates) or _unknown(rates, group)


def _slow_host(rates: ObservedRates) -> tuple[Cause, str, int | None, float] | None:
    """Return one host that takes much longer than the others, which hides in their mean."""
    slowest, seconds = max(rates.seconds.items(), key=lambda item: item[1])
    others = [each for host, each in rates.seconds.items() if host != slowest]
    is_steady = rates.longest.get(slowest, 0.0) <= STEADY * seconds
    if others and is_steady and seconds > SLOW_HOST * statistics.median(others):
        usual = statistics.median(others)
        cause = (
            f"a batch takes {slowest} {seconds:.3g} s, and the other hosts {usual:.3g} s; look at "
            "that host"
        )
        return Cause.SLOW_HOST, cause, None, seconds / (SLOW_HOST * max(usual, 1e-9)) - 1
    busy = rates.host_busy.get(slowest, 0.0)
    rest = [each for host, each in rates.host_busy.items() if host != slowest]
    if len(rest) > 1 and busy >= SATURATED and statistics.median(rest) <= UNUSED_HOST:
        cause = (
            f"{slowest} is {busy:.0%} busy, and the other hosts {statistics.median(rest):.0%}; "
            "look at that host"
        )
        return Cause.SLOW_HOST, cause, None, (busy - SATURATED) / (1 - SATURATED)
    return None


def _sending(rates: ObservedRates) -> tuple[Cause, str, int | None, float] | None:
    """Return the bottleneck if workers could not send what they had prepared."""
    margin = rates.sending / BLOCKED - 1
    rate = f"{rates.bytes_per_second / 1e6:,.0f} MB/s arrive"
    if margin <= 0:
        return None
    if rates.receiver_cpu > SATURATED:
        cause = (
            f"the receiver used {rates.receiver_cpu:.0%} of a CPU ({rate}); smaller samples "
            "(uint8 instead of float32), or more train hosts, would help; more workers would not"
        )
        return Cause.RECEIVER, cause, None, min(margin, rates.receiver_cpu / SATURATED - 1)
    if rates.bytes_per_second < FLOWING or rates.filled > FULL:
        return None
    cause = (
        f"workers spent {rates.sending:.0%} of their time on sending, not preparing ({rate}); a "
        "faster network or smaller samples (uint8 instead of float32) would help; more workers "
        "would not"
    )
    return Cause.SENDING, cause, None, margin


def _more_workers(rates: ObservedRates, group: str, more: int) -> str:
    """Describe how to get `more` additional workers."""
    idle = rates.vcpus - rates.workers
    is_local = group == LOCAL_WORKERS
    option = "local_workers" if is_local else "workers_per_host"
    place = "" if is_local else f" in {group}"
    if rates.is_waiting:
        share = rates.cpu / (rates.work - rates.starved)
        return (
            f"about {more} more workers{place} would remove it; each used {share:.0%} of a "
            f"CPU, so raise data_service.{option}"
        )
    if rates.starved > CPU_STARVED * rates.work:
        return (
            f"about {more} more vCPU{place} would remove it; its workers wanted a CPU and had "
            f"none for {rates.starved / rates.work:.0%} of their time"
        )
    if idle >= more:
        return (
            f"about {more} more workers{place} would remove it, and it has {idle} vCPU without "
            f"one: raise data_service.{option}"
        )
    return f"about {more - max(idle, 0)} more vCPU{place} would remove it"


def _resource(rates: ObservedRates, count: int) -> str:
    if not rates.is_waiting:
        return "vCPU"
    return "worker" if count == 1 else "workers"


def _imbalance(rates: ObservedRates, group: str) -> tuple[Cause, str, int | None, float] | None:
    """Return the bottleneck if workers had time left because others held them up."""
    busy = f"{group} was only {rates.busy:.0%} busy"
    if rates.first_waits > rates.wait / 2:
        cause = f"mostly at the starts of epochs, where nothing was prepared ahead; {busy}"
        return Cause.EPOCH_STARTS, cause, None, 2 * rates.first_waits / rates.wait - 1
    if rates.ahead < rates.workers:
        cause = (
            f"{busy}: a train host's memory holds {rates.ahead:.0f} batches ahead for "
            f"{rates.workers} workers; raise data_service.prefetch_bytes"
        )
        return Cause.MEMORY, cause, None, rates.workers / max(rates.ahead, 1e-9) - 1
    return None


def _unknown(rates: ObservedRates, group: str) -> tuple[Cause, str, int | None, float]:
    cause = f"{group} was {rates.busy:.0%} busy, no cause found"
    return Cause.UNKNOWN, cause, None, 0.0
