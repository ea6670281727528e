"""Jobs side by side: AWS's published tables, the uncertainty of a change, and the printed table."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from test_published_experiments import PYTORCH, TENSORFLOW, Experiment

from launcher import SpecError, compare
from launcher.client.planning import (
    ComparedGroup,
    ComparedJob,
    Comparison,
    StepWindow,
    change_text,
    mean_step_time,
    price_change,
)


def windows(milliseconds: float, *, count: int = 40, noise: float = 0.0, seed: int = 0) -> Any:
    """Return the step times of windows of 50 steps, whose means differ by a share."""
    draws = random.Random(seed)
    each = [milliseconds / 1000 * (1 + draws.gauss(0, noise)) for _ in range(count)]
    return mean_step_time([StepWindow(50, 50 * seconds) for seconds in each])


def group(name: str, per_hour: float | None, **more: Any) -> ComparedGroup:
    made = {"count": 1, "trains": True, "idle_cpu": None, "idle_gpu": None}
    return ComparedGroup(name=name, instance_type="ml.x", per_hour=per_hour, **{**made, **more})


def job(name: str, milliseconds: float | None, *groups: ComparedGroup, **more: Any) -> ComparedJob:
    made = {
        "status": "Completed",
        "place": "us-east-1",
        "is_priced_by_type": False,
        "samples_per_step": None,
        "billable_seconds": 3600,
        "prices": ("us-east-1 on-demand prices of October 2022",),
        "step": None if milliseconds is None else windows(milliseconds, noise=0.02),
    }
    return ComparedJob(job_name=name, groups=groups, **{**made, **more})


@pytest.mark.parametrize("each", [TENSORFLOW, PYTORCH], ids=["p4d", "p3"])
def test_the_published_changes_of_price(each: Experiment) -> None:
    found = price_change(
        windows(each.alone_ms),
        windows(each.with_data_ms),
        per_hour_before=each.alone_per_hour,
        per_hour_after=each.with_data_per_hour,
    )

    assert f"{found.expected:.0%}" == each.change
    assert found.low == pytest.approx(found.expected)  # steps that all take as long
    assert found.high == pytest.approx(found.expected)


def test_the_interval_covers_the_true_change_as_often_as_it_says() -> None:
    """Of 400 pairs of noisy jobs, about 380 intervals have the true change inside."""
    truth = 45.032 * 86 / (37.688 * 192) - 1
    inside = 0
    for seed in range(400):
        found = price_change(
            windows(192, noise=0.1, seed=2 * seed),
            windows(86, noise=0.1, seed=2 * seed + 1),
            per_hour_before=37.688,
            per_hour_after=45.032,
        )
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
    assert 0.93 <= inside / 400 <= 0.99


def test_slow_phases_widen_the_interval() -> None:
    """Ten slow windows in a row are one event, not ten."""
    mixed = [StepWindow(10, 1.0 if number % 2 else 2.0) for number in range(200)]
    phases = [StepWindow(10, 1.0 if number % 100 < 50 else 2.0) for number in range(200)]
    calm, slow = mean_step_time(mixed), mean_step_time(phases)

    assert calm is not None
    assert slow is not None
    assert calm.mean == pytest.approx(slow.mean, rel=0.01)
    assert calm.error is not None
    assert slow.error is not None
    assert slow.error > 5 * calm.error


@pytest.mark.parametrize(
    ("given", "mean", "error"),
    [
        ([], None, None),
        ([StepWindow(0, 1.0)], None, None),
        ([StepWindow(10, 1.0)], 0.1, None),
        ([StepWindow(10, 9.0), StepWindow(10, 1.0)], 0.1, None),  # the first one warms up
        ([StepWindow(1, 9.0), *[StepWindow(10, 1.0)] * 3], 0.1, 0.0),
        ([StepWindow(1, 9.0), StepWindow(10, 1.0), StepWindow(30, 6.0)], 0.175, None),
    ],
)
def test_windows_count_by_their_steps(
    given: Sequence[StepWindow], mean: float | None, error: float | None
) -> None:
    found = mean_step_time(given)

    assert (found and found.mean) == (mean if mean is None else pytest.approx(mean))
    assert (found and found.error) == (error if error is None else pytest.approx(error))


ALONE = job("alone", 192, group("homogeneousCluster", 37.688, idle_gpu=0.55, idle_cpu=0.0))
WITH_DATA = job(
    "both",
    86,
    group("train_group", 37.688, idle_gpu=0.26, idle_cpu=0.5),
    group("data_group", 7.344, trains=False, count=2, idle_cpu=0.2),
)


def test_the_table_has_a_column_for_each_job() -> None:
    found = Comparison(jobs=(ALONE, WITH_DATA))
    lines = str(found).splitlines()

    assert lines[0].split() == ["alone", "both"]
    assert lines[4].split(maxsplit=2) == ["data", "-", "2 x ml.x"]
    rows = {7: ["$37.69", "$45.03"], 8: ["$2.0"], 10: ["CPU 0%, GPU 55%"], 11: ["CPU 20%"]}
    for number, words in rows.items():
        assert all(word in lines[number] for word in words)
    assert lines[12].split()[:5] == ["time", "per", "step", "-", "-55%"]
    assert "-46% (-4" in lines[13]
    assert "Intervals of 95 %" in str(found)
    assert found._repr_html_().startswith("<table>")


def test_prices_by_type_and_old_ones_are_marked() -> None:
    here = job("here", 100, group("train_group", 1.408), is_priced_by_type=True)
    old = job("old", 100, group("train_group", 37.688), prices=("prices of October 2022*",))
    found = Comparison(jobs=(here, old))

    assert "$1.41*" in str(found)
    assert "* ran on this machine" in str(found)
    assert "Prices: prices of October 2022*." in str(found)
    assert "Prices: prices of October 2022*." in found._repr_html_()


def test_jobs_of_other_batches_are_compared_per_sample() -> None:
    one = job("one", 100, group("train_group", 1.0), samples_per_step=256)
    two = job("two", 150, group("train_group", 1.0, count=2), samples_per_step=512)
    found = Comparison(jobs=(one, two))

    assert found.is_per_sample
    change = found.changes[1]
    assert change is not None
    assert change.expected == pytest.approx(-0.25, abs=0.02)
    assert "compared per sample" in str(found)
    assert one.samples_per_second == pytest.approx(2560, rel=0.02)


def test_free_jobs_compare_their_steps_and_unequal_hosts_and_spot_are_named() -> None:
    one = job("one", 100, group("train_group", 0.0), place="this machine")
    two = job("two", 50, group("train_group", 0.0, count=2), place="eu-west-1, spot")
    found = Comparison(jobs=(one, two))

    assert found.changes == (None, None)
    change = found.time_changes[1]
    assert change is not None
    assert change.expected == pytest.approx(-0.5, abs=0.01)
    shown = str(found)
    assert shown.splitlines()[2].split(maxsplit=3) == [
        "place",
        "this",
        "machine",
        "eu-west-1, spot",
    ]
    assert "unequal hosts, 1 x ml.x; 2 x ml.x: a change" in shown
    assert "On spot instances an hour costs less than shown" in shown


def test_metrics_are_compared_when_the_jobs_have_cost_as_much() -> None:
    """The second job is twice as dear, so half an hour of it costs as much as the first's hour."""
    loss = [(60.0, 3.0), (1700.0, 2.0), (3500.0, 1.0)]
    one = job("one", 100, group("train_group", 1.0), metrics={"loss": loss, "own": loss})
    two = job("two", 100, group("train_group", 2.0), metrics={"loss": loss})
    found = Comparison(jobs=(one, two))

    assert found.metrics_at_equal_cost() == [{"loss": 1.0}, {"loss": 2.0}]
    assert "loss at $1.00   1 " in re.sub("  +", "   ", str(found))
    plain = found.to_plain()
    assert (plain["metrics_at_dollars"], plain["jobs"][1]["metrics"]) == (1.0, {"loss": 2.0})
    free = Comparison(jobs=(one, job("free", 100, group("train_group", 0.0))))
    assert free.metrics_at_equal_cost() == [{}, {}]


def test_what_is_unknown_is_not_compared() -> None:
    untimed = job("untimed", None, group("train_group", 1.0))
    unpriced = job("unpriced", 100, group("train_group", None), billable_seconds=None)
    found = Comparison(jobs=(ALONE, untimed, unpriced))

    assert found.changes == (None, None, None)
    assert "unknown" in str(found)
    assert (unpriced.per_hour, unpriced.total, untimed.per_step) == (None, None, None)
    plain = json.loads(json.dumps(found.to_plain()))
    assert plain["jobs"][2]["per_hour"] is None
    assert plain["price_change_per"] == "step"


def test_few_windows_have_no_interval() -> None:
    short = job("short", 86, group("train_group", 1.0), step=windows(86, count=2))
    change = Comparison(jobs=(ALONE, short)).changes[1]

    assert change is not None
    assert (change.low, change.high) == (None, None)
    assert "(" not in change_text(change)


def test_one_job_is_no_comparison() -> None:
    with pytest.raises(SpecError, match="1 jobs cannot be compared"):
        compare("job-1")
