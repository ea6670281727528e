"""Reasons of a recommendation, as sentences."""

from __future__ import annotations

from launcher.client.catalogue.cost import dollars_text
from launcher.client.planning.candidates import Candidate
from launcher.client.planning.step_model import (
    Bottleneck,
    GroupShape,
    family,
    local_workers,
)

_SECONDS_TO_MS = 1000
#: Relative difference that is not named.
_SAME = 0.0005


def why_best(best: Candidate, same: Candidate | None, alone: Candidate | None) -> str:
    """Return why a candidate is the best; same: its train hosts alone, alone: the best alone."""
    if best.shape.data is None:
        return _why_no_data_group(best)
    compared = same or alone
    name = group_text(best.shape.data)
    if compared is None:
        return f"{name} beside it cost least per sample within the limits"
    train = f" of {group_text(compared.shape.train)} alone" if compared is not same else ""
    change = 1 - best.per_sample / compared.per_sample
    money = f"a sample costs {abs(change):.0%} {'less' if change >= 0 else 'more'}"
    return (
        f"{name} prepare {best.step.offloaded:.0%} of the batches, so the step takes "
        f"{_ms(best)} ms instead of {_ms(compared)} ms{train}, and {money}"
    )


def why_not(each: Candidate, best: Candidate) -> str:
    """Return a candidate's difference from the best one, and what its step waits for."""
    if each == best:
        return "recommended"
    money = _change(each.per_sample / best.per_sample - 1, "dearer", "cheaper", "as dear")
    time = _change(
        each.seconds_per_sample / best.seconds_per_sample - 1, "slower", "faster", "as fast"
    )
    return f"{money} and {time} per sample; a step waits for its {each.step.bottleneck.value}"


def _change(change: float, more: str, less: str, same: str) -> str:
    if abs(change) < _SAME:
        return same
    return f"{abs(change):.1%} {more if change > 0 else less}"


def _why_no_data_group(best: Candidate) -> str:
    if best.step.bottleneck is Bottleneck.ACCELERATOR:
        busy = best.step.limits[Bottleneck.TRAIN_CPU] / best.step.expected
        return (
            "do not add a data group: the accelerators are the bottleneck, and the idle vCPUs of "
            f"their hosts prepare the batches in {busy:.0%} of the step"
        )
    return (
        "do not add a data group: the step would be shorter, but cost more than it saves, or no "
        "data group with a known price keeps to the limits"
    )


def break_even(best: Candidate) -> str | None:
    """Return how much faster preparing must get for no data group to be needed.

    Then the idle vCPUs of the train hosts would prepare every batch within the accelerators' time.
    Returns None without a data group, or without idle vCPUs.
    """
    workload = best.workload
    workers = best.shape.train.count * local_workers(workload, best.shape.train)
    if best.shape.data is None or not workers:
        return None
    speed = workload.cpu_speed.get(family(best.shape.train.instance), 1.0)
    power = workers * speed * workload.parallel_efficiency
    allowed = best.step.limits[Bottleneck.ACCELERATOR] * power / best.samples_per_step
    now = workload.cpu_seconds_per_sample.mean
    return (
        f"without a data group, preparing a sample may take {allowed * _SECONDS_TO_MS:.3g} ms of a "
        f"vCPU, and takes {now * _SECONDS_TO_MS:.3g}: {now / allowed:.1f} times as much. Try "
        "uint8, smaller images or decoding on the GPU (DALI) first"
    )


def why_none(
    nearest: Candidate | None, without_price: tuple[str, ...], without_memory: tuple[str, ...]
) -> str:
    """Return why no cluster is recommended; nearest: the best one without limits."""
    if nearest is None and without_memory:
        return (
            "nothing could be compared: the accelerators have too little memory for the model, "
            "however it is spread over the ranks; use larger ones, or more train hosts"
        )
    if nearest is None:
        reason = "no type has both a price and a time on its accelerator in the workload"
        hint = "; run `launcher catalog update`" if without_price else ""
        return f"nothing could be compared: {reason}{hint}"
    hours = f" and takes {nearest.hours.expected:.3g} hours" if nearest.hours else ""
    return (
        f"no cluster keeps to the limits; without them, {cluster_text(nearest)} is the best: it "
        f"costs {dollars_text(nearest.per_hour)} an hour{hours}"
    )


def cluster_text(each: Candidate) -> str:
    """Return a cluster as text: "1 x ml.p4d.24xlarge with 2 x ml.c5.18xlarge"."""
    data = f" with {group_text(each.shape.data)}" if each.shape.data else ""
    return f"{group_text(each.shape.train)}{data}"


def group_text(group: GroupShape) -> str:
    """Return the hosts of a group as text: "2 x ml.c5.18xlarge"."""
    return f"{group.count} x {group.instance.name}"


def _ms(each: Candidate) -> str:
    milliseconds = each.step.expected * _SECONDS_TO_MS
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
