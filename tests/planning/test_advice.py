"""The changes that a diagnosis advises, and what the planner predicts of them."""

from __future__ import annotations

from typing import Any

import pytest
from test_findings import data, job, ranks

from launcher.client.planning import Advice, MeanStepTime, advice_text, advise
from launcher.shared import Cause, GroupUse, HostUse, judge

pytestmark = pytest.mark.usefixtures("packaged_prices")


def group(
    instance_type: str, cpu: float, gpu: float | None = None, *, count: int = 1, vcpus: int = 8
) -> GroupUse:
    hosts = (
        HostUse(host=f"algo-{n}", cpu=cpu, gpu=gpu, points=20, seconds=1200.0) for n in range(count)
    )
    return GroupUse(
        name="train_group" if gpu is not None else "data_group",
        instance_type=instance_type,
        count=count,
        trains=gpu is not None,
        vcpus=vcpus,
        hosts=tuple(hosts),
    )


def train(cpu: float, gpu: float, *, count: int = 1) -> GroupUse:
    return group("ml.g5.2xlarge", cpu, gpu, count=count)


def feed(cpu: float, count: int = 2) -> GroupUse:
    return group("ml.c5.xlarge", cpu, count=count, vcpus=4)


def advised(*groups: GroupUse, **more: Any) -> tuple[Advice, ...]:
    evidence = job(*groups, **more)
    return advise(judge(evidence), evidence)


def test_a_data_group_that_is_too_small_gets_more_hosts() -> None:
    first, *_ = advised(train(0.98, 0.4), feed(0.98))

    assert first.what.startswith("give data_group ")
    assert first.what.endswith(" x ml.c5.xlarge instead of 2")
    assert first.effect is not None
    assert first.effect.per_hour_now == pytest.approx(1.515 + 2 * 0.204)
    assert first.effect.per_hour > first.effect.per_hour_now
    assert first.effect.price.expected < 0
    assert "an hour, a step takes" in advice_text(first)


VERDICT = "input-bound 40% of the time: about 6 more vCPU in data_group would remove it"
STEP = MeanStepTime(mean=0.1, error=None, steps=500, batches=1)
WAITS = data(0.4, Cause.WORKERS, is_waiting=True, margin=1.0)
FIRST = {
    "the train hosts' CPUs are idle, and the planner does not explain it": (
        [train(0.1, 0.4), feed(0.98)],
        {},
        ["give data_group more vCPU: more hosts, or larger ones"],
    ),
    "the verdict is that workers are short, and the planner sees another limit": (
        [train(0.1, 0.2), feed(0.7, 6)],
        {"data": data(0.4, Cause.WORKERS, bytes_per_batch=1e8, margin=1.0), "step": STEP},
        ["give data_group more vCPU: more hosts, or larger ones"],
    ),
    "data hosts that wait themselves, without a verdict": (
        [train(0.1, 0.0), feed(0.02)],
        {"data": data(0.97)},
        [
            "raise data_service.workers_per_host: ",
            "copy the data to the hosts' disks",
            "read fewer",
        ],
    ),
    "train hosts that use their CPUs up": (
        [train(0.98, 0.4), feed(0.1)],
        {},
        ["prepare less on CPUs: "],
    ),
    "a surplus below a host": (
        [train(0.5, 0.97), feed(0.3)],
        {"data": data(0.01, Cause.NOTHING, more=-3)},
        ["3 of data_group's vCPU are not needed: a smaller type will do"],
    ),
    "the words of the job's own verdict": (
        [train(0.3, 0.5), group("ml.c5.xlarge", 0.9)],
        {"data": data(0.4, Cause.WORKERS, text=VERDICT, margin=1.0)},
        [VERDICT],
    ),
    "a type without a price": (
        [group("ml.p5.4xlarge", 0.98, 0.4)],
        {},
        ["add a data group"],
    ),
    "communication": (
        [train(0.2, 0.9, count=2)],
        ranks((0.05, 0.05, 0.0), (0.05, 0.05, 0.0)),
        ["use fewer hosts with more accelerators", "communicate less", "for a pipeline: more"],
    ),
    "storage, streamed": (
        [train(0.2, 0.5), group("ml.c5.xlarge", 0.1)],
        {"data": WAITS, "input_modes": ("FastFile",)},
        ["raise data_service.workers_per_host", "copy the data to the hosts' disks first"],
    ),
    "storage, of files": (
        [train(0.2, 0.5), group("ml.c5.xlarge", 0.1)],
        {"data": WAITS, "input_modes": ("File",)},
        ["raise data_service.workers_per_host", "read fewer, larger files"],
    ),
    "a slow rank": (
        [],
        ranks((0.05, 0.1, 0.0), (0.15, 0.0, 0.0), (0.05, 0.1, 0.0)),
        ["look at rank 1 on algo-2: launcher logs job-1 --host algo-2"],
    ),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_changes_are_named_without_an_amount(name: str) -> None:
    groups, more, beginnings = FIRST[name]
    found = advised(*groups, **more)

    for each, words in zip(found, beginnings, strict=False):
        assert each.what.startswith(words)
    assert found[0].effect is None


def test_data_hosts_that_wait_get_no_cpus() -> None:
    found = advised(train(0.1, 0.0), feed(0.02), data=data(0.97))

    assert not any("vCPU" in each.what or "on CPUs" in each.what for each in found)


def test_surplus_data_hosts_are_given_back() -> None:
    surplus = data(0.01, Cause.NOTHING, more=-9)
    first, *_ = advised(train(0.5, 0.97), feed(0.3, 4), data=surplus)

    assert first.what == "give data_group 2 hosts instead of 4"
    if first.effect is not None:
        assert first.effect.price.expected == pytest.approx(-2 * 0.204 / (1.515 + 4 * 0.204))
