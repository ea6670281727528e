"""The verdict on a job's data: what it waited for, and what would mend it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.shared import (
    LOCAL_WORKERS,
    Cause,
    DataWait,
    ObservedRates,
    close_own_loading,
    explain_wait,
    judge_own_loading,
    judge_wait,
    observe,
)

#: Ten workers, always at work; the rank waits 37 of 100 seconds.
BOUND = ObservedRates(
    total=100.0,
    wait=37.0,
    first_waits=0.0,
    batches=1000,
    seconds={"algo-1": 1.0, "algo-2": 1.0},
    work=1.0,
    cpu=0.9,
    starved=0.0,
    blocked=0.0,
    workers=10,
    vcpus=10,
    bytes_per_batch=0.0,
    bytes_per_second=1e8,
    receiver_cpu=0.1,
    ahead=20.0,
)
IDLE = replace(BOUND, wait=1.0, batches=300)


def find(seen: ObservedRates) -> DataWait:
    found = judge_wait(seen, "data_group")
    assert found is not None
    return found


def words(seen: ObservedRates) -> str:
    return find(seen).text


def test_a_finer_cause_is_in_the_closing_sentence() -> None:
    read: dict[str, Any] = {
        "stream": "a",
        "steps": 50,
        "total_seconds": 100.0,
        "between_seconds": 0.0,
    }
    read |= {"garbage_seconds": 0.0, "waits": {"first": 0.1, "late": 0.0}, "own": {"late": 0.0}}
    read |= {"step": {}, "doing": [["data", "lock", "read (a.py:9)", 30.0]]}
    found = close_own_loading(100.0, 40.0, 50, 1, True, passes=[read])
    assert found is not None
    assert found.text.startswith("input-bound 40% of the time")
    assert found.text.endswith("waits for a lock, in read (a.py:9)")
    runs = {**read, "doing": [*read["doing"], ["data", "running", "read (a.py:9)", 300.0]]}
    unseen = close_own_loading(100.0, 40.0, 50, 1, True, passes=[runs])
    assert unseen is not None
    assert unseen.kind is None


def test_a_host_at_its_limit_alone_is_named_before_the_group_is_judged() -> None:
    seconds = {"algo-1": 1.0, "algo-2": 1.4, "algo-3": 1.0}
    busy = {"algo-1": 0.3, "algo-2": 0.98, "algo-3": 0.3}
    found = find(replace(BOUND, seconds=seconds, host_busy=busy))
    assert (found.bound, found.slowest) == (Cause.SLOW_HOST, "algo-2")
    slow = find(replace(BOUND, seconds={**seconds, "algo-2": 9.0}))
    assert (slow.bound, slow.slowest) == (Cause.SLOW_HOST, "algo-2")


def test_busy_workers_are_what_is_short() -> None:
    found = find(BOUND)
    assert (found.bound, found.share, found.busy, found.more) == (Cause.WORKERS, 0.37, 1.0, 6)
    assert found.text == (
        "input-bound 37% of the time: about 6 more vCPU in data_group would remove it"
    )


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("workers", [1, 7, 64])
def test_with_the_workers_that_are_asked_for_the_work_fits_into_the_computing(
    share: float, workers: int
) -> None:
    seen = replace(BOUND, wait=100 * share, workers=workers, vcpus=workers, batches=100 * workers)
    more = find(seen).more
    assert more is not None
    assert (workers + more) * (1 - share) >= workers - 1e-9
    assert (workers + more - 1) * (1 - share) < workers + 1e-9 or more == 1


def test_for_waiting_workers_the_advice_is_more_workers_not_cpus() -> None:
    text = words(replace(BOUND, cpu=0.1))
    assert "about 6 more workers in data_group would remove it" in text
    assert "each used 10% of a CPU, so raise data_service.workers_per_host" in text
    local = explain_wait(replace(BOUND, cpu=0.1), LOCAL_WORKERS).text
    assert "about 6 more workers would remove it" in local
    assert "raise data_service.local_workers" in local


def test_workers_that_want_a_cpu_are_not_taken_for_waiting_ones() -> None:
    """What runs of ten workers is four, and of each second of theirs 0.4 s are work."""
    crowded = find(replace(BOUND, cpu=0.38, starved=0.6))
    assert crowded.more == 3  # 1000 batches of 0.4 s within 63 s take 6.3 CPUs
    assert crowded.text.endswith(
        "about 3 more vCPU in data_group would remove it; its workers wanted a CPU and had none "
        "for 60% of their time"
    )


def test_cpus_without_a_worker_are_used_first() -> None:
    assert "it has 6 vCPU without one: raise data_service.workers" in words(
        replace(BOUND, vcpus=16)
    )
    assert "about 4 more vCPU in data_group" in words(replace(BOUND, vcpus=12))


@pytest.mark.parametrize(
    ("changes", "bound", "part"),
    [
        pytest.param(
            {"batches": 400, "blocked": 500.0, "bytes_per_second": 6.25e8},
            Cause.SENDING,
            "workers spent 50% of their time on sending, not preparing (625 MB/s arrive)",
            id="the wire",
        ),
        pytest.param(
            {"batches": 400, "blocked": 500.0, "receiver_cpu": 0.95},
            Cause.RECEIVER,
            "the receiver used 95% of a CPU",
            id="the receiver",
        ),
        pytest.param(
            {"batches": 400, "seconds": {"algo-1": 0.2, "algo-2": 5.0}},
            Cause.SLOW_HOST,
            "a batch takes algo-2 5 s, and the other hosts 0.2 s",
            id="one slow host",
        ),
        pytest.param(
            {"batches": 400, "first_waits": 30.0},
            Cause.EPOCH_STARTS,
            "mostly at the starts of epochs",
            id="the starts of epochs",
        ),
        pytest.param(
            {"batches": 400, "ahead": 3.0},
            Cause.MEMORY,
            "holds 3 batches ahead for 10 workers; raise data_service.prefetch_bytes",
            id="the memory",
        ),
        pytest.param(
            {"batches": 400},
            Cause.UNKNOWN,
            "data_group was 40% busy, no cause",
            id="nothing was full",
        ),
        pytest.param(
            {"batches": 400, "blocked": 500.0, "bytes_per_second": 2e3},
            Cause.UNKNOWN,
            "no cause found",
            id="workers that cannot send where nothing flows",
        ),
        pytest.param(
            {"batches": 400, "blocked": 500.0, "filled": 1.0},
            Cause.UNKNOWN,
            "no cause found",
            id="workers that cannot send into a full memory",
        ),
    ],
)
def test_where_workers_are_not_what_is_short_no_number_of_them_is_advised(
    changes: dict[str, object], bound: Cause, part: str
) -> None:
    found = find(replace(BOUND, **changes))  # type: ignore[arg-type]  # of any type
    assert (found.bound, found.more) == (bound, None)
    assert found.text.startswith("input-bound 37% of the time: ")
    assert part in found.text


def test_for_a_job_without_waits_the_advice_is_fewer_workers() -> None:
    found = find(IDLE)
    assert (found.bound, found.more) == (Cause.NOTHING, -6)  # 300 / 99 workers, and a tenth more
    assert found.text == "not input-bound (1.0% waiting for data): 6 fewer vCPU would do"
    assert words(replace(IDLE, batches=900)) == "not input-bound (1.0% waiting for data)"


def test_a_small_wait_without_a_cause_takes_one_phrase() -> None:
    found = find(replace(BOUND, wait=5.0, batches=400))
    assert (found.bound, found.more) == (Cause.UNKNOWN, None)
    assert found.text == "5% of the time spent waiting for data"
    assert words(replace(BOUND, wait=5.0)).startswith("input-bound 5% of the time: about 1 more")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"total": 0.4, "wait": 0.3}, id="too short"),
        pytest.param({"wait": 1.0, "batches": 300}, id="no waits"),
        pytest.param({"wait": 5.0, "batches": 400}, id="small waits"),
        pytest.param({"batches": 400}, id="no cause"),
    ],
)
def test_a_verdict_without_a_cause_fits_beside_its_label_in_80_columns(
    changes: dict[str, object],
) -> None:
    text = words(replace(BOUND, **changes))  # type: ignore[arg-type]  # of any type
    assert len(text) <= 80 - 9, text


def test_loading_in_the_rank_is_all_wait() -> None:
    found = judge_own_loading(total=100.0, wait=75.0, steps=50, ranks=2)
    assert found is not None
    assert (found.bound, found.more) == (Cause.LOADING, 6)  # each rank needs 75 / 25 workers
    idle = judge_own_loading(total=100.0, wait=1.0, steps=50, ranks=2)
    assert idle is not None
    assert idle.text.startswith("not input-bound (1.0%")
    assert judge_own_loading(total=100.0, wait=75.0, steps=9, ranks=2) is None


# What is seen -----------------------------------------------------------------------------------

HOST = {
    "batches": 100.0,
    "bytes": 1e9,
    "prepared": 100.0,
    "preparing": 50.0,
    "blocked": 1.0,
    "cpu": 40.0,
    "starved": 25.0,
    "cpus": 4.0,
    "workers": 0.0,  # they may have left, at the end of the job
    "most_workers": 4.0,
}
RANK = {"steps": 51.0, "wait": 12.0, "total": 32.0, "startup": 2.0, "first_waits": 0.0}
RECEIVER = {"cpu": 3.0, "budget": 1e8}


def seen_of(**ranks: dict[str, float]) -> ObservedRates | None:
    return observe(
        hosts={"algo-1": HOST, "algo-2": {**HOST, "preparing": 100.0}},
        ranks={(rank[1:], "s"): figures for rank, figures in ranks.items()},
        receivers={"algo-3": RECEIVER},
    )


def test_the_first_batch_of_all_and_the_other_ranks_waits_are_left_out() -> None:
    seen = seen_of(r0=RANK, r1={**RANK, "wait": 6.0})
    assert seen is not None
    assert (seen.total, seen.wait, seen.batches) == (30.0, 10.0, 100.0)
    assert (seen.workers, seen.vcpus) == (8, 8)
    assert (seen.work, seen.cpu, seen.starved) == (0.75, 0.4, 0.25)
    assert seen.seconds == {"algo-1": 0.5, "algo-2": 1.0}
    assert seen.ahead == 10.0
    assert seen.receiver_cpu == pytest.approx(0.1)


def test_without_a_rank_there_is_no_verdict() -> None:
    assert seen_of() is None


@pytest.mark.parametrize(
    "rank",
    [
        pytest.param({**RANK, "steps": 10.0}, id="few steps"),
        pytest.param({**RANK, "total": 2.9}, id="a moment"),
    ],
)
def test_a_job_that_was_too_short_is_told_so(rank: dict[str, float]) -> None:
    seen = seen_of(r0=rank)
    assert seen is not None
    found = find(seen)
    assert (found.bound, found.more) == (Cause.TOO_SHORT, None)
    assert found.text.startswith("too short to tell")


def test_nothing_is_advised_where_next_to_nothing_is_computed() -> None:
    """A loop that only reads would be told of thousands of workers."""
    assert judge_wait(replace(BOUND, wait=99.95), "data_group") is None
    assert judge_own_loading(total=100.0, wait=99.95, steps=50, ranks=2) is None
    assert find(replace(BOUND, wait=94.0)).more is not None
    known = explain_wait(replace(BOUND, wait=99.95), "data_group")
    assert (known.bound, known.more) == (Cause.WORKERS, None)
    assert known.text == "input-bound 100% of the time: data_group was 100% busy"
