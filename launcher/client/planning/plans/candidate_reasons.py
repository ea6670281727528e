"""Reasons of a recommendation, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.catalogue import dollars_text
from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.step_model import (
    SECONDS_PER_GB,
    SERVED_BATCHES,
    Bottleneck,
    GroupShape,
    local_vcpus,
    local_workers,
    spare_vcpus,
    vcpu_speed,
)
from launcher.shared import bytes_text

if TYPE_CHECKING:
    from launcher.client.planning.workloads.workload import Workload

#: For numbers of train hosts that cannot be judged.
UNKNOWN_EXCHANGE = (
    "more than one train host is not recommended: what hosts exchange in a step is unknown; give "
    "the workload's model (parameters, optimizer) or communication_seconds_per_step"
)
_SECONDS_TO_MS = 1000
_NAMES = 6
#: Share by which another cluster must be cheaper or faster to be named beside the best one.
WORTHWHILE = 0.05
#: Ratio from which two amounts are compared by it.
_MANY_TIMES = 2.0
#: Relative difference that is not named.
_SAME = 0.0005


def why_data_group(
    best: Candidate, same: Candidate | None, alone: Candidate | None, *, by_time: bool
) -> str:
    """Return why a candidate with a data group is the best.

    same: the same train hosts without a data group. alone: the best candidate without one.
    by_time: the best takes least time.
    """
    compared = same or alone
    name = group_text(best.shape.data) if best.shape.data else ""
    if compared is None:
        least = "take least time" if by_time else "cost least"
        return f"{name} beside it {least} per sample within the limits"
    train = f" of {group_text(compared.shape.train)} alone" if compared is not same else ""
    if compared.region != best.region:
        train += f" in {compared.region}"
    return (
        f"{name} prepare {best.step.offloaded:.0%} of the batches, so the step takes "
        f"{_ms(best)} ms instead of {_ms(compared)} ms{train}, and {_money(best, compared)}"
    )


def _money(best: Candidate, compared: Candidate) -> str:
    dollars, before = best.dollars_per_sample, compared.dollars_per_sample
    if not before:
        return "a sample costs nothing" if not dollars else "a sample is not free any more"
    change = 1 - dollars / before
    return f"a sample costs {abs(change):.0%} {'less' if change >= 0 else 'more'}"


def why_not(candidate: Candidate, best: Candidate) -> str:
    """Return a candidate's difference from the best one, and what its step waits for."""
    if candidate == best:
        return "recommended"
    dollars, seconds = candidate.dollars_per_sample, candidate.seconds_per_sample
    money = _change(dollars, best.dollars_per_sample, "dearer", "cheaper", "as dear")
    time = _change(seconds, best.seconds_per_sample, "slower", "faster", "as fast")
    return f"{money} and {time} per sample; a step waits for its {candidate.step.bottleneck.value}"


def _change(amount: float, of_best: float, more: str, less: str, same: str) -> str:
    if not of_best:  # it is free
        return more if amount else same
    change = amount / of_best - 1
    if abs(change) < _SAME:
        return same
    return f"{abs(change):.1%} {more if change > 0 else less}"


def trades(best: Candidate, pareto: Sequence[Candidate]) -> Iterator[str]:
    """Yield what the nearest cheaper and the nearest faster cluster trade against the best one.

    pareto: from the cheapest to the fastest.
    """
    dollars, seconds = best.dollars_per_sample, best.seconds_per_sample
    cheaper = [each for each in pareto if each.dollars_per_sample < dollars * (1 - WORTHWHILE)]
    faster = [each for each in pareto if each.seconds_per_sample < seconds * (1 - WORTHWHILE)]
    named = [("cheaper", each) for each in cheaper[-1:]]
    named += [("faster", each) for each in faster[:1]]
    for word, each in named:
        money = _against(each.dollars_per_sample, dollars)
        time = _against(each.seconds_per_sample, seconds)
        yield f"{word}: {cluster_text(each)}, {money} money for {time} time"


def _against(amount: float, before: float) -> str:
    """Return how much more or less an amount is: "11% more", "24 times less"."""
    if not amount or not before:
        return "some" if amount else "no"
    more, word = (amount / before, "more") if amount > before else (before / amount, "less")
    if more >= _MANY_TIMES:
        return f"{more:.3g} times {word}"
    return f"{more - 1 if word == 'more' else 1 - 1 / more:.0%} {word}"


def why_no_data_group(best: Candidate, with_data: Candidate | None, *, by_time: bool) -> str:
    """Return why a candidate without a data group is the best.

    with_data: its train hosts with the data group within the limits whose step is shortest, if any.
    by_time: the best takes least time.
    """
    if best.step.bottleneck is Bottleneck.ACCELERATOR:
        busy = best.step.seconds_by_resource[Bottleneck.TRAIN_CPU] / best.step.expected
        return (
            "do not add a data group: the accelerators are the bottleneck, and the idle vCPUs of "
            f"their hosts prepare the batches in {busy:.0%} of the step"
        )
    if _receiving_takes_longer(best):
        return (
            "do not add a data group: to receive a batch takes the train hosts' CPUs longer than "
            "to prepare it"
        )
    if with_data is None or with_data.step.expected >= best.step.expected:
        return (
            "do not add a data group: none with a known price keeps to the limits and makes the "
            "step shorter"
        )
    if by_time:
        return "do not add a data group: the step would be hardly shorter for more hosts"
    return "do not add a data group: the step would be shorter, but cost more than it saves"


def _receiving_takes_longer(best: Candidate) -> bool:
    workload, shape = best.workload, best.shape
    batch = workload.cpu_seconds_per_batch.mean * SERVED_BATCHES
    seconds = shape.ranks * (workload.bytes_per_batch / 1e9 * SECONDS_PER_GB + batch)
    preparing = best.step.seconds_by_resource[Bottleneck.TRAIN_CPU]
    return seconds >= preparing * spare_vcpus(workload, shape.train)


def break_even(best: Candidate) -> str | None:
    """Return how much faster preparing must get for no data group to be of use.

    Then the idle vCPUs of the train hosts would prepare every batch within the accelerators' time.
    Returns None if they do already, if there are none or no memory for a worker, and for the
    workers of a script.
    """
    workload = best.workload
    train = best.shape.train
    vcpus = train.count * local_vcpus(workload, train)
    workers = train.count * local_workers(workload, train)
    if not workers or train.workers is not None:
        return None
    training = best.step.seconds_by_resource[Bottleneck.ACCELERATOR] / best.samples_per_step
    of_worker = training * workers
    computing = of_worker - workload.wait_seconds_per_sample.mean
    allowed = max(0.0, min(training * vcpus, computing)) * vcpu_speed(workload, train.instance)
    needed = workload.cpu_seconds_per_sample.mean
    if needed <= allowed:
        return None
    aim = "without a data group" if best.shape.data else "for the accelerators not to wait"
    if not allowed:
        return (
            f"{aim}, a sample may take {of_worker * _SECONDS_TO_MS:.3g} ms of a worker, and waits "
            f"for storage for {workload.wait_seconds_per_sample.mean * _SECONDS_TO_MS:.3g} alone"
        )
    bought = ""
    paid = train.count * best.prices[0].per_hour
    if best.shape.data and paid:  # the accelerators' time at the price of the data group
        share = best.per_hour / paid
        decoding = best.step.expected / best.samples_per_step * share - training
        milliseconds = decoding * best.shape.ranks * _SECONDS_TO_MS
        bought = f": cheaper if a GPU takes less than {milliseconds:.3g} ms a sample"
    return (
        f"{aim}, preparing a sample may take {allowed * _SECONDS_TO_MS:.3g} ms of a vCPU, and "
        f"takes {needed * _SECONDS_TO_MS:.3g}: {needed / allowed:.1f} times as much. Try uint8, "
        f"smaller images or decoding on the GPU first (DALI{bought})"
    )


def why_not_compared(
    without_price: tuple[str, ...],
    without_memory: tuple[str, ...],
    without_vcpus: tuple[str, ...],
    without_room: tuple[str, ...],
    shortage: str,
) -> str:
    """Return why there is no cluster at all, from the types that were left out.

    shortage: of memory for batches, as text; empty without any.
    """
    hint = "; run `launcher plan types --update`" if without_price else ""
    reasons = {
        f"{shortage}; use smaller batches, or uint8": shortage,
        "the accelerators have too little memory for the model, however it is spread over the "
        "ranks; use larger ones, or more train hosts": without_memory,
        "the ranks keep all vCPUs busy, so that none is left to prepare or receive batches; use "
        "larger hosts, or check cpus_per_rank": without_vcpus,
        "neither train nor data hosts with a known price have memory for a worker "
        "(bytes_per_worker)": without_room,
        f"no type has both a price and a time on its accelerator in the workload{hint}": True,
    }
    return f"nothing could be compared: {next(why for why, holds in reasons.items() if holds)}"


def why_none(nearest: Candidate, name: str, *, has_deadline: bool) -> str:
    """Return why no cluster keeps to the limits; nearest: the best one if they are ignored."""
    if has_deadline and nearest.hours is None:
        return (
            "no cluster is known to keep to the deadline: the workload's hours follow from epochs "
            "and samples_per_epoch, so give both"
        )
    hours = f" and takes {nearest.hours.expected:.3g} hours" if nearest.hours else ""
    return (
        f"no cluster keeps to the limits; without them, {name} is the best: it "
        f"costs {dollars_text(nearest.per_hour)} an hour{hours}"
    )


def batch_shortage(workload: Workload, names: Sequence[str]) -> str:
    """Return which types' memory holds no batch of each rank, as text; empty without any."""
    if not names:
        return ""
    size = bytes_text(round(workload.bytes_per_batch))
    found = []
    for instance in map(catalogue.instance_types().__getitem__, names):
        of_accelerator = instance.accelerator_memory_gib
        own = f", {of_accelerator:g} of an accelerator" if of_accelerator else ""
        ranks = f"{instance.memory_gib or 0:g} GiB for {instance.processes} ranks"
        found.append(f"{instance.name} ({ranks}{own})")
    return f"a batch of {size} for each rank does not fit into {listed(found)}"


def listed(names: Sequence[str]) -> str:
    """Return the first names as text, and how many there are more."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def cluster_text(candidate: Candidate) -> str:
    """Return a cluster as text: "1 x ml.p4d.24xlarge with 2 x ml.c5.18xlarge"."""
    data = f" with {group_text(candidate.shape.data)}" if candidate.shape.data else ""
    return f"{group_text(candidate.shape.train)}{data}"


def group_text(group: GroupShape) -> str:
    """Return the hosts of a group as text: "2 x ml.c5.18xlarge"."""
    return f"{group.count} x {group.instance.name}"


def _ms(candidate: Candidate) -> str:
    milliseconds = candidate.step.expected * _SECONDS_TO_MS
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
