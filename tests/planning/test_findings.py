"""The cause that the evidence on a job shows, and "not sure" where it shows none."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from launcher.client.planning import JobEvidence
from launcher.shared import (
    Cause,
    Confidence,
    DataWait,
    Doing,
    GroupUse,
    HostUse,
    PassTimes,
    RankTimes,
    StepLimit,
    WaitKind,
    judge,
)

INPUT, COMPUTE, STORAGE = StepLimit.INPUT, StepLimit.COMPUTE, StepLimit.STORAGE
COMMUNICATION, IMBALANCED = StepLimit.COMMUNICATION, StepLimit.IMBALANCED
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
NOT_SURE = (StepLimit.NOT_SURE, Confidence.NONE)


def group(
    cpu: float | None,
    gpu: float | None = None,
    *,
    points: int = 20,
    trains: bool = True,
    gpus: tuple[float, ...] = (),
    is_accelerated: bool = True,
    **use: Any,
) -> GroupUse:
    """A group whose only host has these figures, or each host its own share of accelerators."""
    hosts = tuple(
        HostUse(host=f"algo-{n}", cpu=cpu, gpu=share, points=points, seconds=60.0 * points, **use)
        for n, share in enumerate(gpus or (gpu,), start=1)
    )
    name = "train_group" if trains else "data_group"
    made: dict[str, Any] = {"instance_type": "ml.g5.2xlarge", "vcpus": 8, "count": len(hosts)}
    made["is_accelerated"] = is_accelerated
    return GroupUse(name=name, trains=trains, hosts=hosts, **made)


def job(*groups: GroupUse, **more: Any) -> JobEvidence:
    made: dict[str, Any] = {"job_name": "job-1", "status": "Completed", "region": "us-east-1"}
    made |= {"bills": True, "read_on": date(2026, 11, 26), "rank_count": 1}
    return JobEvidence(groups=groups, **{**made, **more})


def data(share: float, bound: Cause | None = None, **more: Any) -> DataWait:
    return DataWait(share=share, bound=bound, **{"steps": 200, "seconds": 60.0, **more})


def ranks(*times: tuple[float | None, ...], steps: int = 50) -> dict[str, Any]:
    """Ranks of a task, each with its seconds of computing, other ranks' and waits for data."""
    found = [
        RankTimes(
            rank=n,
            host=f"algo-{n + 1}",
            compute=compute,
            communication=waits,
            data_wait=wait,
            steps=steps,
        )
        for n, (compute, waits, wait) in enumerate(times)
    ]
    return {"ranks": tuple(found), "rank_count": len(found)}


def read(*doing: tuple[str, str, str, float], stream: str = "a", **more: Any) -> PassTimes:
    """A pass of 100 steps in 10 seconds, and what its rank was seen to do."""
    made = {"steps": 100, "seconds": 10.0, "first": 0.0, "late_own": 0.0}
    made |= {"between": 0.0, "garbage": 0.0, "quantiles": {}}
    return PassTimes(stream=stream, doing=tuple(Doing(*each) for each in doing), **made | more)


def loading(kind: WaitKind, *, is_waiting: bool) -> JobEvidence:
    wait = data(0.5, Cause.LOADING, margin=9.0, is_waiting=is_waiting, kind=kind)
    return job(data=wait, passes=(read(("data", kind.value, "read (a.py:9)", 5.0)),))


#: The published TensorFlow job: all CPUs busy, 45 % of the accelerators.
PUBLISHED = group(0.98, 0.45)
LOADING = data(0.4, Cause.LOADING, margin=12.0)
BUSY, SOME, FEEDING = group(0.5, 0.97), group(0.3, 0.5), group(0.95, trains=False)
NO_WAIT = data(0.01, Cause.NOTHING)
CASES = {
    "CPUs busy beside idle accelerators": (job(PUBLISHED), INPUT, HIGH),
    "close to both thresholds": (job(group(0.87, 0.68)), INPUT, MEDIUM),
    "the CPUs of the data hosts": (job(SOME, FEEDING), INPUT, HIGH),
    "accelerators busy": (job(BUSY), COMPUTE, MEDIUM),
    "accelerators busy and no wait": (job(BUSY, data=NO_WAIT), COMPUTE, HIGH),
    "no wait, one rank, no accelerator": (job(group(0.5), data=NO_WAIT), COMPUTE, MEDIUM),
    "a clear wait for data": (job(SOME, data=LOADING), INPUT, HIGH),
    "a small wait for data": (
        job(group(0.3, 0.9), data=data(0.05, Cause.WORKERS, margin=0.6)),
        *(COMPUTE, HIGH),
    ),
    "a small wait, and nothing else known": (
        job(group(0.5), data=data(0.05, Cause.LOADING, margin=0.6)),
        *(COMPUTE, MEDIUM),
    ),
    "a wait for data, and a longer one for other ranks": (
        job(
            group(0.3, gpus=(None, None)),
            data=data(0.12, Cause.LOADING, margin=3.0),
            **ranks((0.08, 0.3, 0.05), (0.08, 0.3, 0.05)),
        ),
        *(COMMUNICATION, HIGH),
    ),
    "data hosts that serve one rank after the other": (
        job(
            *(group(0.1), FEEDING),
            data=data(0.85, Cause.WORKERS, margin=0.9),
            **ranks((0.3, 1.9, 0.01), (0.3, 0.03, 1.9)),
        ),
        *(INPUT, HIGH),
    ),
    "own loading that waits for a disk": (
        job(group(0.3), data=data(0.5, Cause.LOADING, margin=3.0, is_waiting=True)),
        *(STORAGE, HIGH),
    ),
    "own loading on the CPU of an idle host": (
        job(group(0.01), data=data(0.5, Cause.LOADING, margin=3.0, is_waiting=False)),
        *(INPUT, HIGH),
    ),
    "a wait beside busy accelerators": (job(group(0.3, 0.95), data=LOADING), INPUT, LOW),
    "an unexplained wait that the CPUs explain": (job(PUBLISHED, data=data(0.3)), INPUT, HIGH),
    "minutes of CloudWatch's wait": (job(SOME, data=data(0.3, steps=0, minutes=9)), INPUT, LOW),
    "a minute of CloudWatch's wait": (job(data=data(0.3, steps=0, minutes=1)), *NOT_SURE),
    "an unexplained wait": (job(SOME, data=data(0.3)), INPUT, LOW),
    "workers that wait for disks": (
        job(SOME, data=data(0.4, Cause.WORKERS, margin=0.9, is_waiting=True)),
        *(STORAGE, HIGH),
    ),
    "workers that wait for disks, but longer for the wire": (
        job(SOME, data=data(0.4, Cause.SENDING, margin=0.9, is_waiting=True)),
        *(INPUT, HIGH),
    ),
    "a rank that does little but wait for disks": (
        job(group(0.01, 0.5), data=data(0.97)),
        *(STORAGE, LOW),
    ),
    "a rank that waits for disks": (job(group(0.01, 0.5), data=LOADING), STORAGE, HIGH),
    "ranks that wait for each other": (
        job(**ranks((0.06, 0.04, 0.0), (0.061, 0.039, 0.0))),
        *(COMMUNICATION, HIGH),
    ),
    "ranks that wait a little": (
        job(**ranks((0.07, 0.03, 0.0), (0.07, 0.03, 0.0))),
        *(COMMUNICATION, MEDIUM),
    ),
    "ranks that wait for data": (
        job(**ranks((0.06, 0.01, 0.03), (0.06, 0.01, 0.03))),
        *(INPUT, HIGH),
    ),
    "ranks that wait a little for data": (job(**ranks((0.08, 0.008, 0.012))), INPUT, MEDIUM),
    "ranks that compute": (job(**ranks((0.09, 0.01, 0.0), (0.09, 0.01, 0.0))), COMPUTE, HIGH),
    "nothing at all": (job(), *NOT_SURE),
    "a few minutes": (job(group(0.98, 0.45, points=4)), *NOT_SURE),
    "no figures of accelerators": (job(group(0.98)), *NOT_SURE),
    "all idle": (job(group(0.2, 0.3)), *NOT_SURE),
    "neither idle nor busy": (job(group(0.95, 0.8)), *NOT_SURE),
    "idle, and not for data": (job(group(0.98, 0.4), data=NO_WAIT), *NOT_SURE),
    "a small unexplained wait": (job(data=data(0.06)), *NOT_SURE),
    "too short a wait": (job(data=data(0.5, Cause.TOO_SHORT)), *NOT_SURE),
    "late steps of a fifth of a second": (
        job(passes=(read(("late", "sleep", "", 0.1), seconds=0.2, late_own=0.1),)),
        *NOT_SURE,
    ),
    "few steps": (job(data=data(0.5, Cause.LOADING, steps=5)), *NOT_SURE),
    "no wait, of two ranks": (job(group(0.5), data=NO_WAIT, rank_count=2), *NOT_SURE),
    "steps that cannot be separated": (job(**ranks((0.1, None, 0.0), (0.1, None, 0.0))), *NOT_SURE),
    "few measured steps": (
        job(**ranks((0.05, 0.05, 0.0), (0.05, 0.05, 0.0), steps=3)),
        *NOT_SURE,
    ),
    "two hosts that differ": (job(group(0.3, gpus=(0.5, 0.1))), *NOT_SURE),
    "a slow rank": (
        job(**ranks((0.05, 0.06, 0.0), (0.05, 0.06, 0.0), (0.11, 0.0, 0.0))),
        *(IMBALANCED, HIGH, "rank 2 on algo-3", "computes for 110 ms"),
    ),
    "a rank that alone waits for data": (
        job(**ranks((0.05, 0.06, 0.0), (0.05, 0.0, 0.06), steps=8)),
        *(IMBALANCED, MEDIUM, "rank 1 on algo-2", "rank 1 on algo-2 waits for data"),
    ),
    "a rank that takes no batches": (
        job(data=LOADING, steps_by_rank={"0": 300, "1": 20}),
        *(IMBALANCED, HIGH, "rank 1", "rank 1 took 20 batches, and the other ranks 300"),
    ),
    "one idle accelerator of eight": (
        job(group(0.3, 0.8, each_gpu=(0.9,) * 7 + (0.0,))),
        *(IMBALANCED, HIGH, "GPU 7 on algo-1", "GPU 7 of algo-1 is 0% busy"),
    ),
    "all CPUs of a job without accelerators": (
        job(group(0.99, is_accelerated=False)),
        *(COMPUTE, MEDIUM, None, "99% busy, and they have no accelerators"),
    ),
    "other work on the host": (
        job(group(0.98, 0.45, machine=(1.0, 0.6))),
        *(INPUT, MEDIUM, None, "other work uses 40% of the CPUs"),
    ),
    "a hang": (job(hang="rank 1: waits"), StepLimit.STALLED, HIGH, None, "rank 1: waits"),
    "a slow first epoch": (
        job(passes=(read(seconds=30.0), read(), read())),
        *(StepLimit.STALLED, HIGH, None, "3.0 times as long"),
    ),
    "a garbage collector": (
        job(passes=(read(garbage=2.0),)),
        *(StepLimit.STALLED, HIGH, None, "garbage collector runs for 20%"),
    ),
    "an evaluation between epochs": (
        job(passes=(read(), read(("between", "running", "evaluate (a.py:9) > f", 5.0), between=5))),
        *(StepLimit.STALLED, HIGH, "evaluate (a.py:9) > f", "20% of the time"),
    ),
    "a stream that is read between epochs": (
        job(passes=(read(), read(stream="b", seconds=5.0), read())),
        *(StepLimit.STALLED, MEDIUM, None, "between epochs"),
    ),
    "late steps that save": (
        job(passes=(read(("late", "disk", "save (a.py:3)", 3.0), late_own=3.0),)),
        *(StepLimit.STALLED, HIGH, "save (a.py:3)", "in save (a.py:3)"),
    ),
    "a lock in the data": (
        loading(WaitKind.LOCK, is_waiting=True),
        *(INPUT, HIGH, None, "waits for a lock, in read (a.py:9)"),
    ),
    "an interpreter that others hold": (
        loading(WaitKind.LOCK, is_waiting=False),
        *(INPUT, HIGH, None, "hold the interpreter"),
    ),
    "a network in the data": (
        loading(WaitKind.NETWORK, is_waiting=True),
        *(STORAGE, HIGH, None, "waits for a network"),
    ),
    "a CPU in the data": (loading(WaitKind.DISK, is_waiting=False), INPUT, HIGH, None, "waiting"),
    "a child of the step": (
        job(data=NO_WAIT, passes=(read(("own", "child", "step (a.py:4)", 9.0)),)),
        *(StepLimit.STALLED, HIGH, None, "another process for 90%"),
    ),
    "a slow data host": (
        job(
            group(0.2, 0.4),
            data=data(0.4, Cause.SLOW_HOST, slowest="algo-2", margin=4.0, text="algo-2 takes 9 s"),
        ),
        *(IMBALANCED, HIGH, "algo-2", "algo-2 takes 9 s"),
    ),
    "a host whose accelerators differ": (
        job(group(0.3, gpus=(0.5, 0.5, 0.15, 0.5))),
        *(IMBALANCED, LOW, "algo-3", "15% busy"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause_its_confidence_and_the_culprit(name: str) -> None:
    evidence, limit, confidence, *named = CASES[name]
    found = judge(evidence)

    assert (found.limit, found.confidence) == (limit, confidence), found
    culprit, words = named or (None, "")
    assert found.culprit == culprit
    assert found.why
    assert words in found.why
