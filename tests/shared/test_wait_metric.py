"""The wait for data as a metric: SageMaker's expression finds it in each event that has it."""

from __future__ import annotations

import re

import pytest

from launcher import Estimator, JobSpec, MemorySession, MetricDefinition
from launcher.client.estimator import constructor_arguments
from launcher.client.jobs import final_metrics
from launcher.client.sessions import metric_patterns
from launcher.data.metrics import StreamCounters
from launcher.shared import WAIT_METRIC, WAIT_PATTERN, format_event, judge_own_loading, wait_share

OWN = {"Name": WAIT_METRIC, "Regex": WAIT_PATTERN}


def found(line: str) -> list[float]:
    return [float(text) for text in re.findall(WAIT_PATTERN, line)]


@pytest.mark.parametrize(("wait", "total"), [(0.0, 1.0), (1e-7, 1.0), (0.25, 1.0), (3, 3), (0, 0)])
def test_the_expression_reads_the_share(wait: float, total: float) -> None:
    share = wait_share(wait, total)
    line = format_event("data_progress", host="algo-1", wait_share=share)

    assert found(line) == [share]
    assert 0 <= share <= 1


def test_it_reads_the_events_of_an_epoch_and_of_the_end() -> None:
    clock = StreamCounters(dict.fromkeys(("steps", "epochs"), 0.0), lambda _: None).begin()
    epoch = format_event("data_epoch", host="algo-1", rank=0, **clock.fields())
    verdict = judge_own_loading(total=10.0, wait=4.0, steps=100, ranks=1)

    assert found(epoch) == [0.0]
    assert verdict is not None
    assert found(format_event("data_verdict", host="algo-1", **verdict.fields())) == [0.4]
    assert found(format_event("host_usage", host="algo-1", cpu=0.5)) == []


@pytest.fixture
def definitions(tmp_path, monkeypatch):
    """Send a job; return its MetricDefinitions, and its description."""
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    (tmp_path / "train.py").write_text("")

    def definitions(*own: MetricDefinition, **arguments):
        session = MemorySession()
        made = Estimator(
            **{"entry_point": "train.py", "source_dir": str(tmp_path), **arguments},
            image_uri="111122223333.dkr.ecr.us-east-1.amazonaws.com/i:1",
            instance_type="ml.m5.large",
            instance_count=1,
            metric_definitions=own,
            sagemaker_session=session,
        )
        job = made.fit(logs=False)
        return list(job.description()["AlgorithmSpecification"].get("MetricDefinitions", ())), job

    return definitions


def test_each_request_has_it_behind_the_users_metrics(definitions) -> None:
    sent, job = definitions(MetricDefinition("loss", "loss=(x)"))

    assert sent == [{"Name": "loss", "Regex": "loss=(x)"}, OWN]
    assert list(metric_patterns(job.description())) == ["loss"]
    given = constructor_arguments(job.description(), job.document())
    assert given["metric_definitions"] == [{"Name": "loss", "Regex": "loss=(x)"}]


def test_the_users_definition_takes_its_place(definitions) -> None:
    sent, job = definitions(MetricDefinition(WAIT_METRIC, "w=(x)"))
    ended = {**job.description(), "FinalMetricDataList": [{"MetricName": WAIT_METRIC, "Value": 1}]}

    assert sent == [{"Name": WAIT_METRIC, "Regex": "w=(x)"}]
    assert final_metrics(ended) == {WAIT_METRIC: 1}


def test_a_request_of_as_many_metrics_as_aws_allows_has_only_these(definitions) -> None:
    sent, _ = definitions(*[MetricDefinition(f"m{n}", f"m{n}=(x)") for n in range(40)])

    assert len(sent) == 40
    assert OWN not in sent


def test_the_last_value_of_it_is_no_metric_of_the_user(definitions) -> None:
    _, job = definitions()
    ended = {**job.description(), "FinalMetricDataList": [{"MetricName": WAIT_METRIC, "Value": 1}]}

    assert final_metrics(ended) == {}


def test_jobs_that_launcher_does_not_start_have_none() -> None:
    spec = JobSpec(entry_point="", instance_type="ml.m5.large", instance_count=1)
    assert not spec.starts_launcher
