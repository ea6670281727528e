"""The plan in a report: the clusters for a job's workload, with the job marked on it."""

from __future__ import annotations

from typing import Any

import pytest
from test_advice import group
from test_findings import job

from launcher.client.page import PlannedRun, UnplannedRun, plan_blocks, plan_of_run
from launcher.client.planning import (
    ComparedGroup,
    ComparedJob,
    JobFigures,
    MeanStepTime,
    Measure,
    Workload,
)
from launcher.shared import GroupUse

pytestmark = pytest.mark.usefixtures("packaged_prices")
STARVED = group("ml.g5.8xlarge", 0.98, 0.45, vcpus=32)
STEP = MeanStepTime(mean=0.2, error=None, steps=100, batches=1)
WORKLOAD = Workload(
    batch_size=64,
    cpu_seconds_per_sample=Measure.exact(0.1),
    bytes_per_batch=1e6,
    gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.09)},
    samples_per_epoch=64_000,
    epochs=9,
)


def planned(
    *groups: GroupUse,
    per_hour: float | None = 3.06,
    bills: bool = True,
    given: Workload | None = None,
    **changes: Any,
) -> PlannedRun | UnplannedRun:
    evidence = job(*groups, bills=bills, **{"step": STEP, **changes})
    names = ("name", "instance_type", "count", "trains")
    compared = [
        ComparedGroup(
            **{name: getattr(each, name) for name in names},
            per_hour=per_hour,
            idle_cpu=None,
            idle_gpu=None,
        )
        for each in groups
    ]
    priced = ComparedJob(
        job_name="job-1",
        status="Completed",
        place="us-east-1",
        is_priced_by_type=not bills,
        groups=tuple(compared),
        step=evidence.step,
        samples_per_step=None,
        billable_seconds=None,
        prices=(),
    )
    return plan_of_run(evidence, priced, JobFigures(), given)


def test_the_use_of_a_jobs_hosts_gives_a_plan_with_the_job_on_it() -> None:
    found = planned(STARVED)

    assert isinstance(found, PlannedRun)
    assert found.run.name == "1 x ml.g5.8xlarge"
    # A million batches of the only rank, a step of 200 ms for each.
    assert found.scatter.what == "a million batches of a rank"
    assert found.run.hours == pytest.approx(200_000 / 3600)
    assert found.run.dollars == pytest.approx(3.06 * 200_000 / 3600)
    assert found.best is not None
    assert found.best.dollars < found.run.dollars
    assert found.expected == pytest.approx(0.2, rel=0.25)


@pytest.mark.parametrize(("samples", "steps"), [(None, 1000), (32.0, 2000)])
def test_a_given_workload_counts_its_own_epochs(samples: float | None, steps: int) -> None:
    """By the samples of the job's own step, if these are known."""
    found = planned(STARVED, given=WORKLOAD, samples_per_step=samples)

    assert isinstance(found, PlannedRun)
    assert found.scatter.what == "9 epochs"
    assert found.run.hours == pytest.approx(9 * steps * 0.2 / 3600)


def test_as_many_train_hosts_are_compared_as_the_job_has() -> None:
    found = planned(group("ml.g5.8xlarge", 0.98, 0.45, count=3, vcpus=32))

    assert isinstance(found, PlannedRun)
    assert all(each.name.startswith("3 x ml.g5.") for each in found.scatter.points)


def test_a_job_of_this_machine_is_no_measurement_of_its_types() -> None:
    found = planned(STARVED, given=WORKLOAD, bills=False)

    assert isinstance(found, PlannedRun)
    assert found.expected is None


def test_the_section_has_the_run_and_the_recommended_cluster_in_words() -> None:
    found = planned(STARVED, given=WORKLOAD)
    assert isinstance(found, PlannedRun)
    assert found.best is not None
    shown = plan_blocks(found)
    text = " ".join(each["text"] for each in shown if each["kind"] == "text")
    (scatter,) = (each for each in shown if each["kind"] == "scatter")
    (table,) = (each for each in shown if each["kind"] == "table")

    assert f"Recommended: {found.best.name}" in text
    assert "this run's 1 x ml.g5.8xlarge takes 0.5 hours and $1.53" in text
    assert "200 ms were measured" in text
    assert scatter["series"][-1]["names"] == ["1 x ml.g5.8xlarge: 0.5 hours and $1.53"]
    assert table["rows"][0] == ["1 x ml.g5.8xlarge", "0.5", "$1.53", "this run"]


def test_a_run_on_the_recommended_cluster_is_told_so() -> None:
    light = Workload(
        batch_size=64,
        cpu_seconds_per_sample=Measure.exact(1e-5),
        bytes_per_batch=1e3,
        gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.2)},
    )
    found = planned(group("ml.g5.xlarge", 0.2, 1.0, vcpus=4), given=light, per_hour=1.408)

    first = plan_blocks(found)[0]
    assert first["text"] == "This run's cluster is the recommended one: 1 x ml.g5.xlarge"


@pytest.mark.parametrize(
    ("groups", "changes", "why"),
    [
        ([STARVED], {"step": None}, "no step of the job was timed"),
        ([STARVED], {"per_hour": None}, "the price of ml.g5.8xlarge is unknown"),
        ([STARVED], {"per_hour": 0.0}, "the job costs nothing"),
        ([STARVED, STARVED], {}, "the plan compares clusters of one group that trains"),
        ([group("ml.g5.8xlarge", 0.3, 0.2, vcpus=32)], {}, "does not explain how long its steps"),
        ([group("ml.c5.xlarge", 0.9, 0.2, vcpus=4)], {}, "ml.c5.xlarge has none"),
        ([STARVED], {"bills": False}, "finished no pass over a dataset of launcher.data"),
    ],
    ids=["no step", "no price", "free", "two groups", "unexplained", "no accelerator", "local"],
)
def test_what_is_not_enough_for_a_plan_is_said(
    groups: list[GroupUse], changes: dict[str, Any], why: str
) -> None:
    found = planned(*groups, **changes)

    assert isinstance(found, UnplannedRun)
    assert why in found.why
    assert plan_blocks(found)[0]["text"].startswith("Not planned: ")
