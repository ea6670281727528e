"""The cause that the evidence on a job shows, and "not sure" where it shows none."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from launcher.client.planning import (
    Confidence,
    DataWait,
    GroupUse,
    HostUse,
    JobEvidence,
    RankTimes,
    StepLimit,
    find_limit,
)
from launcher.shared import Bound

INPUT, COMPUTE, NOT_SURE = StepLimit.INPUT, StepLimit.COMPUTE, StepLimit.NOT_SURE


def group(
    cpu: float | None,
    gpu: float | None = None,
    *,
    points: int = 20,
    count: int = 1,
    trains: bool = True,
    gpus: tuple[float, ...] = (),
    vcpus: int = 8,
) -> GroupUse:
    """A group whose hosts have the same figures, or each its own share of its accelerators."""
    shares = gpus or (gpu,) * count
    return GroupUse(
        name="train_group" if trains else "data_group",
        instance_type="ml.g5.2xlarge",
        count=len(shares),
        trains=trains,
        vcpus=vcpus,
        hosts=tuple(
            HostUse(host=f"algo-{n}", cpu=cpu, gpu=share, points=points, seconds=60.0 * points)
            for n, share in enumerate(shares, start=1)
        ),
    )


def job(*groups: GroupUse, **more: Any) -> JobEvidence:
    made: dict[str, Any] = {"job_name": "job-1", "status": "Completed", "region": "us-east-1"}
    made |= {"bills": True, "read_on": date(2026, 11, 26)}
    return JobEvidence(groups=groups, **{**made, "rank_count": 1, **more})


def data(share: float, bound: Bound | None = None, **more: Any) -> DataWait:
    return DataWait(share=share, bound=bound, **{"steps": 200, "seconds": 60.0, **more})


def rank(number: int, compute: float, waits: float | None, *, wait: float = 0.0, steps: int = 50):
    return RankTimes(
        rank=number,
        host=f"algo-{number + 1}",
        data_wait=wait,
        compute=compute,
        communication=waits,
        steps=steps,
    )


#: The published TensorFlow job: all CPUs busy, 45 % of the accelerators.
PUBLISHED = group(0.98, 0.45)
LOADING = data(0.4, Bound.LOADING, margin=12.0)
CASES = {
    "CPUs busy beside idle accelerators": (job(PUBLISHED), INPUT, Confidence.HIGH),
    "close to both thresholds": (job(group(0.87, 0.68)), INPUT, Confidence.MEDIUM),
    "the CPUs of the data hosts": (
        job(group(0.3, 0.5), group(0.95, trains=False)),
        INPUT,
        Confidence.HIGH,
    ),
    "accelerators busy": (job(group(0.5, 0.97)), COMPUTE, Confidence.MEDIUM),
    "accelerators busy and no wait": (
        job(group(0.5, 0.97), data=data(0.01, Bound.NOTHING)),
        COMPUTE,
        Confidence.HIGH,
    ),
    "no wait, one rank, no accelerator": (
        job(group(0.5), data=data(0.01, Bound.NOTHING)),
        COMPUTE,
        Confidence.MEDIUM,
    ),
    "a clear wait for data": (job(group(0.3, 0.5), data=LOADING), INPUT, Confidence.HIGH),
    "a small wait for data": (
        job(group(0.3, 0.9), data=data(0.05, Bound.WORKERS, margin=0.6)),
        COMPUTE,
        Confidence.HIGH,
    ),
    "a small wait, and nothing else known": (
        job(group(0.5), data=data(0.05, Bound.LOADING, margin=0.6)),
        COMPUTE,
        Confidence.MEDIUM,
    ),
    "a wait for data, and a longer one for other ranks": (
        job(
            group(0.3, count=2),
            ranks=(rank(0, 0.08, 0.3, wait=0.05), rank(1, 0.08, 0.3, wait=0.05)),
            data=data(0.12, Bound.LOADING, margin=3.0),
            rank_count=2,
        ),
        StepLimit.COMMUNICATION,
        Confidence.HIGH,
    ),
    "data hosts that serve one rank after the other": (
        job(
            group(0.1),
            group(0.95, trains=False),
            ranks=(rank(0, 0.3, 1.9, wait=0.01), rank(1, 0.3, 0.03, wait=1.9)),
            data=data(0.85, Bound.WORKERS, margin=0.9),
            rank_count=2,
        ),
        INPUT,
        Confidence.HIGH,
    ),
    "own loading that waits for a disk": (
        job(group(0.3), data=data(0.5, Bound.LOADING, margin=3.0, is_waiting=True)),
        StepLimit.STORAGE,
        Confidence.HIGH,
    ),
    "own loading on the CPU of an idle host": (
        job(group(0.01), data=data(0.5, Bound.LOADING, margin=3.0, is_waiting=False)),
        INPUT,
        Confidence.HIGH,
    ),
    "a wait beside busy accelerators": (job(group(0.3, 0.95), data=LOADING), INPUT, Confidence.LOW),
    "an unexplained wait that the CPUs explain": (
        job(PUBLISHED, data=data(0.3)),
        INPUT,
        Confidence.HIGH,
    ),
    "minutes of CloudWatch's wait": (
        job(group(0.3, 0.5), data=data(0.3, steps=0, minutes=9)),
        INPUT,
        Confidence.LOW,
    ),
    "a minute of CloudWatch's wait": (
        job(data=data(0.3, steps=0, minutes=1)),
        NOT_SURE,
        Confidence.NONE,
    ),
    "an unexplained wait": (job(group(0.3, 0.5), data=data(0.3)), INPUT, Confidence.LOW),
    "workers that wait for disks": (
        job(group(0.3, 0.5), data=data(0.4, Bound.WORKERS, margin=0.9, is_waiting=True)),
        StepLimit.STORAGE,
        Confidence.HIGH,
    ),
    "workers that wait for disks, but longer for the wire": (
        job(group(0.3, 0.5), data=data(0.4, Bound.SENDING, margin=0.9, is_waiting=True)),
        INPUT,
        Confidence.HIGH,
    ),
    "a rank that does little but wait for disks": (
        job(group(0.01, 0.5), data=data(0.97)),
        StepLimit.STORAGE,
        Confidence.LOW,
    ),
    "a rank that waits for disks": (
        job(group(0.01, 0.5), data=LOADING),
        StepLimit.STORAGE,
        Confidence.HIGH,
    ),
    "ranks that wait for each other": (
        job(ranks=(rank(0, 0.06, 0.04), rank(1, 0.061, 0.039)), rank_count=2),
        StepLimit.COMMUNICATION,
        Confidence.HIGH,
    ),
    "ranks that wait a little": (
        job(ranks=(rank(0, 0.07, 0.03), rank(1, 0.07, 0.03)), rank_count=2),
        StepLimit.COMMUNICATION,
        Confidence.MEDIUM,
    ),
    "ranks that wait for data": (
        job(ranks=(rank(0, 0.06, 0.01, wait=0.03), rank(1, 0.06, 0.01, wait=0.03)), rank_count=2),
        INPUT,
        Confidence.HIGH,
    ),
    "ranks that wait a little for data": (
        job(ranks=(rank(0, 0.08, 0.008, wait=0.012),)),
        INPUT,
        Confidence.MEDIUM,
    ),
    "ranks that compute": (
        job(ranks=(rank(0, 0.09, 0.01), rank(1, 0.09, 0.01)), rank_count=2),
        COMPUTE,
        Confidence.HIGH,
    ),
    # not sure
    "nothing at all": (job(), NOT_SURE, Confidence.NONE),
    "a few minutes": (job(group(0.98, 0.45, points=4)), NOT_SURE, Confidence.NONE),
    "no figures of accelerators": (job(group(0.98)), NOT_SURE, Confidence.NONE),
    "all idle": (job(group(0.2, 0.3)), NOT_SURE, Confidence.NONE),
    "neither idle nor busy": (job(group(0.95, 0.8)), NOT_SURE, Confidence.NONE),
    "idle, and not for data": (
        job(group(0.98, 0.4), data=data(0.01, Bound.NOTHING)),
        NOT_SURE,
        Confidence.NONE,
    ),
    "a small unexplained wait": (job(data=data(0.06)), NOT_SURE, Confidence.NONE),
    "too short a wait": (job(data=data(0.5, Bound.TOO_SHORT)), NOT_SURE, Confidence.NONE),
    "few steps": (job(data=data(0.5, Bound.LOADING, steps=5)), NOT_SURE, Confidence.NONE),
    "no wait, of two ranks": (
        job(group(0.5), data=data(0.01, Bound.NOTHING), rank_count=2),
        NOT_SURE,
        Confidence.NONE,
    ),
    "steps that cannot be separated": (
        job(ranks=(rank(0, 0.1, None), rank(1, 0.1, None)), rank_count=2),
        NOT_SURE,
        Confidence.NONE,
    ),
    "few measured steps": (
        job(ranks=(rank(0, 0.05, 0.05, steps=3), rank(1, 0.05, 0.05, steps=3)), rank_count=2),
        NOT_SURE,
        Confidence.NONE,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause_and_its_confidence(name: str) -> None:
    evidence, limit, confidence = CASES[name]
    found = find_limit(evidence)

    assert (found.limit, found.confidence) == (limit, confidence), found
    assert found.why
    assert found.culprit is None


def test_a_slow_rank_is_named() -> None:
    ranks = (rank(0, 0.05, 0.06), rank(1, 0.05, 0.06), rank(2, 0.11, 0.0))
    found = find_limit(job(ranks=ranks, rank_count=3))

    assert (found.limit, found.confidence) == (StepLimit.IMBALANCED, Confidence.HIGH)
    assert found.culprit == "rank 2 on algo-3"
    assert "computes for 110 ms" in found.why


def test_a_rank_that_alone_waits_for_data_is_named() -> None:
    ranks = (rank(0, 0.05, 0.06), rank(1, 0.05, 0.0, wait=0.06, steps=8))
    found = find_limit(job(ranks=ranks, rank_count=2))

    assert (found.limit, found.confidence) == (StepLimit.IMBALANCED, Confidence.MEDIUM)
    assert "rank 1 on algo-2 waits for data" in found.why


def test_a_slow_data_host_is_named() -> None:
    slow = data(0.4, Bound.SLOW_HOST, slowest="algo-2", margin=4.0, text="a batch takes algo-2 9 s")
    found = find_limit(job(group(0.2, 0.4), data=slow))

    assert (found.limit, found.confidence) == (StepLimit.IMBALANCED, Confidence.HIGH)
    assert (found.culprit, found.why) == ("algo-2", "a batch takes algo-2 9 s")


def test_a_host_whose_accelerators_differ_is_named_with_little_confidence() -> None:
    found = find_limit(job(group(0.3, gpus=(0.5, 0.5, 0.15, 0.5))))

    assert (found.limit, found.confidence) == (StepLimit.IMBALANCED, Confidence.LOW)
    assert found.culprit == "algo-3"


def test_of_two_hosts_that_differ_neither_is_accused() -> None:
    assert find_limit(job(group(0.3, gpus=(0.5, 0.1)))).limit is NOT_SURE
