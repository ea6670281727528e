"""The arithmetic of AWS's published experiments: prices, savings, and slips in what is printed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from calibration import ObservedStep, calibrate
from published import PYTORCH, TENSORFLOW, Experiment

from launcher.client import catalogue
from launcher.client.catalogue import published_prices
from launcher.client.planning import (
    ClusterShape,
    GroupShape,
    Measure,
    Workload,
    estimate_step,
    recommend,
)
from launcher.errors import SpecError

EXPERIMENTS = pytest.mark.parametrize("each", [TENSORFLOW, PYTORCH], ids=lambda each: each.name)
PRICES = {price.instance_type: price.per_hour for price in published_prices()}


def instance(name: str) -> catalogue.InstanceType:
    found = catalogue.find(name)
    assert found is not None
    return found


def per_hour(each: Experiment, *, data_hosts: int) -> float:
    return PRICES[each.train] + data_hosts * PRICES[each.data]


def per_step(dollars_per_hour: float, milliseconds: float) -> float:
    return dollars_per_hour / 3600 * milliseconds / 1000


def shape_of(each: Experiment, *, data_hosts: int) -> ClusterShape:
    data = GroupShape(instance=instance(each.data), count=data_hosts) if data_hosts else None
    return ClusterShape(train=GroupShape(instance=instance(each.train), count=1), data=data)


@EXPERIMENTS
def test_the_prices_per_hour_are_exact(each: Experiment) -> None:
    assert round(per_hour(each, data_hosts=0), 3) == each.printed_alone_per_hour
    assert round(per_hour(each, data_hosts=each.data_hosts), 3) == each.printed_with_data_per_hour


@EXPERIMENTS
def test_price_performance_changes_as_printed(each: Experiment) -> None:
    alone = per_step(per_hour(each, data_hosts=0), each.alone_ms)
    with_data = per_step(per_hour(each, data_hosts=each.data_hosts), each.with_data_ms)

    assert f"{with_data / alone - 1:.0%}" == each.printed_change


def test_slip_the_dollars_per_step_are_cents() -> None:
    """Printed: $0.201 per step. It is a hundredth of that."""
    step = per_step(37.688, 192)

    assert round(step * 100, 3) == 0.201
    assert round(per_step(45.032, 86) * 100, 3) == 0.108


def test_slip_the_cents_of_the_notebook_are_those_of_a_minute() -> None:
    """The notebook prints 7.6 and 1.9 cents per step: it divides the hour by 60, not by 3600."""
    assert round(3.825 / 60 * 1.19 * 100, 1) == 7.6
    assert round(5.661 / 60 * 0.1968 * 100, 1) == 1.9
    assert round(per_step(3.825, 1193) * 100, 3) == 0.127


def test_slip_the_notebooks_formula_saves_more_than_its_text_says() -> None:
    """Its text says 45 % cheaper, and its own formula gives 47 %."""
    assert round(1 - 45 / 37.7 * 86 / 192, 2) == 0.47


def test_slip_the_vcpus_are_240_and_30_for_each_gpu() -> None:
    p4d, c5 = instance("ml.p4d.24xlarge"), instance("ml.c5.18xlarge")
    assert p4d.vcpu is not None
    assert c5.vcpu is not None
    both = p4d.vcpu + 2 * c5.vcpu

    assert (both, both / p4d.accelerators) == (240, 30)
    assert p4d.vcpu / p4d.accelerators == 12  # and not 20, for which 60 % busy is printed


def test_the_steps_that_fit_the_tensorflow_table_are_a_range() -> None:
    found = calibrate(TENSORFLOW.observed)

    assert found.cpu_seconds == pytest.approx((0.8 * 240 * 0.086, 96 * 0.192))
    assert found.gpu_seconds == pytest.approx((0.74 * 0.086, 0.45 * 0.192))


def test_a_step_without_shares_is_a_bound() -> None:
    found = calibrate(PYTORCH.observed)

    assert found.cpu_seconds == pytest.approx((0.184 * 36, 1.193 * 8))
    assert found.gpu_seconds == (0.0, 0.184)


def test_nothing_fits_no_observation() -> None:
    with pytest.raises(SpecError, match="there is no observed step"):
        calibrate(())


def calibrated_tensorflow() -> Workload:
    found = calibrate(TENSORFLOW.observed)
    batch = 1024
    ranks = instance(TENSORFLOW.train).processes
    low, high = (seconds / (batch * ranks) for seconds in found.cpu_seconds)
    return Workload(
        batch_size=batch,
        cpu_seconds_per_sample=Measure(mean=math.sqrt(low * high), low=low, high=high),
        bytes_per_batch=1e6,
        gpu_seconds_per_step={"NVIDIA A100": Measure(mean=0.075, low=0.0636, high=0.0864)},
        cpu_speed={"p4d": 1.0, "c5": 1.0, "m5": 1.0},
        cpus_per_rank=0,
    )


def test_the_calibrated_tensorflow_workload_predicts_both_printed_steps() -> None:
    workload = calibrated_tensorflow()
    alone = estimate_step(workload, shape_of(TENSORFLOW, data_hosts=0)).seconds
    with_data = estimate_step(workload, shape_of(TENSORFLOW, data_hosts=2)).seconds

    assert alone.low < 0.192 <= alone.high * 1.001
    assert with_data.low < 0.086 < with_data.high


def test_the_cluster_recommended_for_the_tensorflow_workload_is_that_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    best = recommend(calibrated_tensorflow()).best

    assert best is not None
    assert best.shape == shape_of(TENSORFLOW, data_hosts=2)
    assert round(best.per_hour, 3) == TENSORFLOW.printed_with_data_per_hour


def test_an_observed_step_alone_calibrates_exactly() -> None:
    one = calibrate([ObservedStep(seconds=0.1, vcpus=10, gpu_busy=0.5, cpu_busy=1.0)])

    assert one.cpu_seconds == (1.0, 1.0)
    assert one.gpu_seconds == (0.05, 0.05)
