"""launcher.diagnose(): from the lines of a job's hosts to its cause and the changes that help."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher import Estimator, MemoryRun, MemorySession
from launcher.client.catalogue import find
from launcher.client.planning import Diagnosis, advice_text, larger_types
from launcher.client.sessions import MEMORY, MetricPoint
from launcher.shared import Confidence, StepLimit, format_event

Diagnosed = Callable[..., Diagnosis]


def usage(cpu: float, gpu: float | None = None) -> str:
    gpus = {} if gpu is None else {"gpu": gpu, "gpu_memory_bytes": 1}
    return format_event("host_usage", cpu=cpu, cpus=8, memory_bytes=1000, **gpus)


def epoch(wait: float, total: float, *, rank: int = 0, number: int = 0, steps: int = 100) -> str:
    return format_event(
        "data_epoch",
        rank=rank,
        stream="pipeline:train_set",
        epoch=number,
        steps=steps,
        samples=32 * steps,
        pads=0,
        drops=0,
        wait_seconds=wait,
        total_seconds=total,
    )


def verdict(bound: str, share: float, more: int | None) -> str:
    text = f"input-bound {share:.0%} of the time"
    fields = {"bound": bound, "wait_share": share, "busy": share, "more": more, "margin": 9.0}
    return format_event("data_verdict", **fields, text=text)


def step(compute: float, waits: float | None) -> str:
    fields = {"epoch": 0, "step": 3, "steps": 9, "loss": 0.7, "data_wait": 0.001}
    return format_event(
        "train_step", rank=0, **fields, compute=compute, communication=waits, samples_per_second=9
    )


@pytest.fixture
def diagnosed(tmp_path: Path, packaged_prices: Path) -> Diagnosed:
    """Diagnose a job that costs money and whose only host prints lines."""

    def diagnose(
        *lines: str,
        instance_type: str = "ml.g5.8xlarge",
        bills: bool = True,
        kind: type[MemorySession] = MemorySession,
    ) -> Diagnosis:
        (tmp_path / "train.py").write_text("")
        run, platform = MemoryRun(lines=lines), replace(MEMORY, bills=bills)
        estimator = Estimator(
            entry_point="train.py",
            source_dir=str(tmp_path),
            role="arn:aws:iam::111122223333:role/r",
            image_uri="111122223333.dkr.ecr.us-east-1.amazonaws.com/i:1",
            instance_type=instance_type,
            instance_count=1,
            sagemaker_session=kind(lambda _request: run, platform=platform, region="us-east-1"),
        )
        return launcher.diagnose(estimator.fit(logs=False, job_name="job-1"))

    return diagnose


START = datetime(2026, 11, 1, tzinfo=timezone.utc)


class Interrupted(MemorySession):
    """A session whose jobs trained twice, and whose hosts are measured every five minutes."""

    def describe_training_job(self, *, TrainingJobName: str) -> Any:  # noqa: N803 (AWS)
        found: Any = super().describe_training_job(TrainingJobName=TrainingJobName)
        times = [START + timedelta(minutes=minutes) for minutes in (0, 2, 10, 70)]
        states = [
            {"Status": "Training", "StartTime": times[0], "EndTime": times[1]},
            {"Status": "Interrupted", "StartTime": times[1], "EndTime": times[2]},
            {"Status": "Training", "StartTime": times[2], "EndTime": times[3]},
        ]
        return {**found, "SecondaryStatusTransitions": states}

    def host_averages(
        self,
        job_name: str,
        hosts: Collection[str],
        metrics: Collection[str],
        start: datetime,
        end: datetime,
        period: int,
    ) -> dict[tuple[str, str], list[MetricPoint]]:
        begin, length = start.timestamp(), (end - start).total_seconds()
        times = [begin + 300 * number for number in range(int(length / 300) + 1)]
        percent = {"CPUUtilization": 3150.0, "GPUUtilization": 40.0}
        return {
            (host, metric): [MetricPoint(time=time, value=percent[metric]) for time in times]
            for host in hosts
            for metric in metrics
        }


INPUT, COMPUTE, STORAGE = StepLimit.INPUT, StepLimit.COMPUTE, StepLimit.STORAGE
HIGH = Confidence.HIGH
BUSY_CPUS = [usage(0.98, 0.45)] * 9
OWN_LOADING = [epoch(40.0, 100.0), verdict("loading", 0.4, 1)]


@pytest.mark.parametrize(
    "line",
    [
        verdict("weather", 0.4, 3),
        verdict("loading", 0.4, 3).replace("wait_share=0.4", "wait_share=null"),
        verdict("loading", 0.4, 3).replace("more=3", "more=many"),
    ],
    ids=["another bound", "no share", "no number"],
)
def test_a_verdict_of_another_version_is_left_out(diagnosed: Diagnosed, line: str) -> None:
    data = diagnosed(epoch(4.0, 10.0), line).evidence.data

    assert data is not None
    assert (data.share, data.bound) == (0.4, None)


def test_a_cluster_that_costs_nothing_has_advice_without_prices(
    diagnosed: Diagnosed, packaged_prices: Path
) -> None:
    (packaged_prices / "prices.csv").write_text("instance_type,price_per_hour\nml.g5.8xlarge,0\n")
    first, *_ = diagnosed(*BUSY_CPUS).advice

    assert first.what.startswith("train on 1 x ml.g5.16xlarge instead of ml.g5.8xlarge: 64")
    assert first.effect is None


def test_a_cpu_bottleneck_goes_up_within_the_family_first(diagnosed: Diagnosed) -> None:
    found = diagnosed(*BUSY_CPUS)
    first, second, third = found.advice

    assert (found.limit, found.confidence) == (INPUT, HIGH)
    assert first.what.startswith("train on 1 x ml.g5.16xlarge instead of ml.g5.8xlarge: 64")
    assert first.effect is not None
    assert (first.effect.per_hour_now, first.effect.per_hour) == (3.06, 5.12)
    assert first.effect.step.expected == pytest.approx(-0.5, abs=0.01)
    assert first.effect.price.expected == pytest.approx(0.5 * 5.12 / 3.06 - 1, abs=0.01)
    assert second.what.startswith("add a data group of ")
    assert second.effect is not None
    assert second.effect.price.expected < first.effect.price.expected
    assert "DALI" in third.what
    assert "uint8" in third.what


def test_it_is_text_html_rows_and_plain_values(diagnosed: Diagnosed) -> None:
    found = diagnosed(*BUSY_CPUS)
    lines, rows = str(found).splitlines(), list(found.rows())
    plain = json.loads(json.dumps(found.to_plain()))

    assert lines[:2] == ["Job        job-1 (Completed)", "Diagnosis  input-bound, confidence high"]
    assert "CPUs of the train hosts are 98% busy, and the accelerators only 45%" in lines[2]
    assert any("$3.06 to $5.12 an hour, a step takes 50% less" in line for line in lines)
    assert found._repr_html_().startswith("<table>")
    assert [row["what"] for row in rows] == [each.what for each in found.advice]
    assert {(row["job"], row["limit"], row["confidence"]) for row in rows} == {
        ("job-1", "input-bound", "high")
    }
    assert rows[0]["effect"]["per_hour"] == 5.12
    assert (plain["limit"], plain["confidence"]) == ("input-bound", "high")
    assert plain["advice"][0]["effect"]["per_hour"] == 5.12
    assert "us-east-1 on-demand prices of July 2026 (2" in plain["advice"][0]["effect"]["prices"][0]
    assert plain["evidence"]["groups"][0]["hosts"][0]["gpu"] == 0.45
    assert plain["evidence"]["read_on"] == found.evidence.read_on.isoformat()


def test_the_published_cluster_is_advised_where_the_family_has_nothing_larger(
    diagnosed: Diagnosed, packaged_prices: Path
) -> None:
    """AWS's TensorFlow job: p4d.24xlarge has no larger type, and two c5.18xlarge gave -46 %."""
    old = "instance_type,price_per_hour,as_of\nml.p4d.24xlarge,37.688,2022-10\n"
    (packaged_prices / "prices.csv").write_text(old)
    first, *_ = diagnosed(*BUSY_CPUS, instance_type="ml.p4d.24xlarge").advice

    assert first.what.startswith("add a data group of ")
    assert first.effect is not None
    assert first.effect.per_hour_now == 37.688
    low, high = first.effect.price.low, first.effect.price.high
    assert low <= -0.46 <= high + 0.03
    assert "of October 2022* (47 months old)" in advice_text(first)


@pytest.mark.parametrize(
    ("name", "larger"),
    [
        ("ml.g5.8xlarge", ["ml.g5.16xlarge"]),
        ("ml.g5.12xlarge", ["ml.g5.24xlarge"]),
        ("ml.g5.48xlarge", []),
        ("ml.p4d.24xlarge", []),
        ("ml.trn1.32xlarge", []),
    ],
)
def test_the_larger_types_of_a_family(name: str, larger: list[str]) -> None:
    instance = find(name)
    assert instance is not None
    assert [each.name for each in larger_types(instance)] == larger


def test_ranks_that_load_their_data_themselves_get_a_data_group(diagnosed: Diagnosed) -> None:
    found = diagnosed(*OWN_LOADING, instance_type="ml.g5.xlarge")
    free = diagnosed(*OWN_LOADING, bills=False).advice[0]

    assert found.limit is INPUT
    assert "data group" in found.advice[0].what
    assert found.advice[0].effect is not None
    assert found.advice[0].effect.step.expected == pytest.approx(-0.4, abs=0.01)
    assert (free.what, free.effect) == ("add a data group with about 1 vCPU", None)


@pytest.mark.parametrize(("cpu", "limit"), [(5.0, STORAGE), (95.0, INPUT)], ids=["storage", "cpu"])
def test_a_job_that_computes_next_to_nothing_still_has_a_cause(
    diagnosed: Diagnosed, cpu: float, limit: StepLimit
) -> None:
    """No number of workers is advised for it, so that it prints no verdict of its own."""
    host = {"prepared": 100.0, "batches": 100.0, "bytes": 1e6, "preparing": 98.0, "cpu": cpu}
    host |= {"starved": 0.0, "blocked": 0.0, "cpus": 8.0, "workers": 0.0, "most_workers": 1.0}
    rank = {"steps": 101.0, "wait": 97.5, "total": 100.5, "startup": 0.5, "first_waits": 0.0}
    receiver = {"cpu": 1.0, "budget": 1e8}
    figures = {"hosts": {"algo-2": host}, "ranks": {"0/a": rank}, "receivers": {"algo-1": receiver}}
    lines = [format_event("data_metrics", of=of, figures=each) for of, each in figures.items()]
    found = diagnosed(epoch(97.5, 100.5), *lines)

    assert (found.limit, found.confidence) == (limit, HIGH)
    assert found.evidence.data is not None
    assert found.evidence.data.more is None


def test_computing_and_communication_of_a_task(diagnosed: Diagnosed) -> None:
    found = diagnosed(*[step(0.09, 0.004)] * 30)
    sharded = diagnosed(*[step(0.09, None)] * 30)

    assert (found.limit, found.confidence) == (COMPUTE, HIGH)
    assert found.evidence.step_seconds == pytest.approx(0.095)
    assert found.advice[0].what.startswith("do not add a data group")
    assert sharded.limit is StepLimit.NOT_SURE  # its steps are not separated
    assert sharded.evidence.ranks[0].communication is None


@pytest.mark.parametrize(
    "line",
    [
        "launcher: host_usage cpu=much",
        "launcher: train_step rank=0 data_wait=x compute=1",
        "launcher: data_epoch rank=0",
        "a program's own line",
    ],
)
def test_lines_without_figures_leave_it_unsure(diagnosed: Diagnosed, line: str) -> None:
    found = diagnosed(line)

    assert (found.limit, found.confidence) == (StepLimit.NOT_SURE, Confidence.NONE)
    assert any("wait for data" in each for each in found.evidence.missing)
    assert "read the data with launcher.data.DataLoader" in found.advice[0].what


def test_steps_are_timed_by_the_loader_in_windows(diagnosed: Diagnosed) -> None:
    fields = {"stream": "pipeline:train_set", "epoch": 0, "steps": 100, "rank": 0}
    progress = [
        format_event(
            "data_progress", **fields, step=10 * n, wait_seconds=0.1 * n, total_seconds=2.0 * n
        )
        for n in range(1, 9)
    ]
    evidence = diagnosed(*progress, epoch(1.0, 20.0)).evidence

    assert evidence.step is not None
    assert evidence.step.steps == 90  # the first window warms up
    assert evidence.step.mean == pytest.approx(0.2)
    assert evidence.step.error == pytest.approx(0.0, abs=1e-9)
    assert evidence.samples_per_step == 32


def test_the_use_of_hosts_counts_after_an_interruption_too(diagnosed: Diagnosed) -> None:
    found = diagnosed(kind=Interrupted)

    (group,) = found.evidence.groups
    assert group.points == 13  # of 70 minutes, without the first and the last
    assert (found.limit, found.confidence) == (INPUT, HIGH)
    assert found.evidence.sources == ("CloudWatch, every 300 s",)


def test_steps_of_a_keras_job_of_any_sdk_are_timed(diagnosed: Diagnosed) -> None:
    lines = [
        "  1/195 [....] - ETA: 10:00 - loss: 2.3",
        "195/195 [====] - 60s 300ms/step - loss: 1.0",
        *["195/195 [====] - 37s 192ms/step - loss: 0.5"] * 4,
    ]

    assert diagnosed(*lines).evidence.step_seconds == pytest.approx(0.192)
