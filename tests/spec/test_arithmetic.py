"""The arithmetic of the textbook."""

from __future__ import annotations

import pytest

from launcher.client.spec import InstanceGroup
from launcher.client.spec.arithmetic import (
    cluster_size,
    global_batch,
    iterations_per_epoch,
    per_replica_batch,
)
from launcher.errors import SpecError


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        pytest.param([InstanceGroup("train", "ml.p3.8xlarge", 2)], 8, id="2 x 4 GPUs"),
        pytest.param([InstanceGroup("train", "ml.p4d.24xlarge", 4)], 32, id="4 x 8 GPUs"),
        pytest.param(
            [InstanceGroup("data", "ml.c5.18xlarge", 2), InstanceGroup("dnn", "ml.p4d.24xlarge")],
            8,
            id="CPU hosts add none",
        ),
        pytest.param([], 0, id="no machines"),
    ],
)
def test_cluster_size_counts_the_accelerators(groups: list[InstanceGroup], size: int) -> None:
    assert cluster_size(groups) == size


def test_5000_samples_at_a_global_batch_of_500_are_10_iterations() -> None:
    assert iterations_per_epoch(5000, 500) == 10


def test_a_last_short_step_is_a_step() -> None:
    assert iterations_per_epoch(5001, 500) == 11


def test_global_batch_is_replicas_times_per_replica_batch() -> None:
    assert global_batch(replicas=8, per_replica=32) == 256


def test_64_on_one_gpu_becomes_2_on_32() -> None:
    assert per_replica_batch(64, 1) == 64
    assert per_replica_batch(64, 32) == 2


@pytest.mark.parametrize(
    ("batch", "replicas", "fix"),
    [
        pytest.param(100, 8, "use 96 or 104", id="between two"),
        pytest.param(3, 8, "use 8", id="less than one each"),
    ],
)
def test_a_batch_that_does_not_divide_names_those_that_do(
    batch: int, replicas: int, fix: str
) -> None:
    with pytest.raises(SpecError, match="cannot be divided evenly") as raised:
        per_replica_batch(batch, replicas)
    assert raised.value.problems[0].fix == fix


def test_nothing_is_counted_in_zeros() -> None:
    with pytest.raises(SpecError, match="global batch size is 0"):
        iterations_per_epoch(5000, 0)
