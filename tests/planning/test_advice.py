"""The changes that a diagnosis advises, and what the planner predicts of them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.client.planning import (
    Advice,
    DataWait,
    GroupUse,
    HostUse,
    JobEvidence,
    MeanStepTime,
    RankTimes,
    advice_text,
    advise,
    find_limit,
)
from launcher.shared import Bound


@pytest.fixture(autouse=True)
def packaged_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)


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


def advised(*groups: GroupUse, **more: Any) -> tuple[Advice, ...]:
    made: dict[str, Any] = {"job_name": "job-1", "status": "Completed", "region": "us-east-1"}
    made |= {"bills": True, "read_on": date(2026, 11, 26)}
    evidence = JobEvidence(groups=groups, **{**made, "rank_count": 1, **more})
    return advise(find_limit(evidence), evidence)


def data(share: float, bound: Bound, **more: Any) -> DataWait:
    return DataWait(share=share, bound=bound, **{"steps": 200, "seconds": 60.0, **more})


def ranks(*times: tuple[float, float, float]) -> tuple[RankTimes, ...]:
    return tuple(
        RankTimes(
            rank=n,
            host=f"algo-{n + 1}",
            data_wait=wait,
            compute=compute,
            communication=waits,
            steps=50,
        )
        for n, (wait, compute, waits) in enumerate(times)
    )


def test_a_data_group_that_is_too_small_gets_more_hosts() -> None:
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.98, 0.4), group("ml.c5.xlarge", 0.98, count=2, vcpus=4)
    )

    assert first.what.startswith("give data_group ")
    assert first.what.endswith(" x ml.c5.xlarge instead of 2")
    assert first.effect is not None
    assert first.effect.per_hour_now == pytest.approx(1.515 + 2 * 0.204)
    assert first.effect.per_hour > first.effect.per_hour_now
    assert first.effect.price.expected < 0
    assert "an hour, a step takes" in advice_text(first)


def test_use_that_the_planner_does_not_explain_has_no_prediction() -> None:
    """The train hosts' CPUs are idle, although the data group is at its limit."""
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.1, 0.4), group("ml.c5.xlarge", 0.98, count=2, vcpus=4)
    )

    assert first.what == "give data_group more vCPU: more hosts, or larger ones"
    assert first.effect is None


def test_more_data_hosts_that_would_gain_nothing_are_not_advised() -> None:
    """The job's own verdict is that workers are short, and the planner sees another limit."""
    waits = data(0.4, Bound.WORKERS, bytes_per_batch=1e8, margin=1.0)
    step = MeanStepTime(mean=0.1, error=None, steps=500, batches=1)
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.1, 0.2),
        group("ml.c5.xlarge", 0.7, count=6, vcpus=4),
        data=waits,
        step=step,
    )

    assert first.what == "give data_group more vCPU: more hosts, or larger ones"
    assert first.effect is None


def test_data_hosts_that_wait_themselves_get_workers_instead_of_cpus() -> None:
    """A script that only reads has no verdict, and its data hosts may sleep."""
    first, *others = advised(
        group("ml.g5.2xlarge", 0.1, 0.0),
        group("ml.c5.xlarge", 0.02, count=2, vcpus=4),
        data=DataWait(share=0.97, steps=200, seconds=60.0),
    )

    assert first.what.startswith("raise data_service.workers_per_host: ")
    assert not any("vCPU" in each.what or "on CPUs" in each.what for each in others)


def test_train_hosts_that_use_their_cpus_up_prepare_less() -> None:
    (only,) = advised(
        group("ml.g5.2xlarge", 0.98, 0.4), group("ml.c5.xlarge", 0.1, count=2, vcpus=4)
    )

    assert only.what.startswith("prepare less on CPUs: ")


def test_surplus_data_hosts_are_given_back() -> None:
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.5, 0.97),
        group("ml.c5.xlarge", 0.3, count=4, vcpus=4),
        data=data(0.01, Bound.NOTHING, more=-9),
    )

    assert first.what == "give data_group 2 hosts instead of 4"
    if first.effect is not None:
        assert first.effect.price.expected == pytest.approx(-2 * 0.204 / (1.515 + 4 * 0.204))


def test_a_surplus_below_a_host_asks_for_a_smaller_type() -> None:
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.5, 0.97),
        group("ml.c5.xlarge", 0.3, count=2, vcpus=4),
        data=data(0.01, Bound.NOTHING, more=-3),
    )

    assert first.what == "3 of data_group's vCPU are not needed: a smaller type will do"


def test_the_words_of_the_jobs_own_verdict_come_first() -> None:
    text = "input-bound 40% of the time: about 6 more vCPU in data_group would remove it"
    first, *_ = advised(
        group("ml.g5.2xlarge", 0.3, 0.5),
        group("ml.c5.xlarge", 0.9),
        data=data(0.4, Bound.WORKERS, text=text, margin=1.0),
    )

    assert first.what == text


def test_a_type_without_a_price_is_named_without_an_amount() -> None:
    first, second, _ = advised(group("ml.g6.2xlarge", 0.98, 0.4))

    assert "instead of ml.g6.2xlarge" in first.what
    assert first.effect is None
    assert second.what.startswith("add a data group")


def test_communication() -> None:
    found = advised(
        group("ml.g5.2xlarge", 0.2, 0.9, count=2), ranks=ranks((0, 0.05, 0.05), (0, 0.05, 0.05))
    )

    assert "fewer hosts with more accelerators" in found[0].what
    assert any("launcher plan cut" in each.what for each in found)


@pytest.mark.parametrize(("mode", "words"), [("FastFile", "input_mode File"), ("File", "larger")])
def test_storage(mode: str, words: str) -> None:
    waits = data(0.4, Bound.WORKERS, is_waiting=True, margin=1.0)
    found = advised(
        group("ml.g5.2xlarge", 0.2, 0.5),
        group("ml.c5.xlarge", 0.1),
        data=waits,
        input_modes=(mode,),
    )

    assert "workers_per_host" in found[0].what
    assert words in found[1].what


def test_the_slow_rank_has_a_command() -> None:
    first, *_ = advised(ranks=ranks((0, 0.05, 0.1), (0, 0.15, 0.0), (0, 0.05, 0.1)))

    assert first.what == "look at rank 1 on algo-2: launcher logs job-1 --host algo-2"
