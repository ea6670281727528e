"""What became of a job, from its description and its hosts' lines."""

from pathlib import Path

import pytest

from launcher import MemorySession, PlatformError
from launcher.client.jobs import download_artifacts, host_groups, summarise
from launcher.shared import JobDocument, Role, TrainerPart, format_event


def group(name, instance_type, count):
    return {
        "InstanceGroupName": name,
        "InstanceType": instance_type,
        "InstanceCount": count,
    }


def description(**fields):
    return {
        "TrainingJobName": "job-1",
        "TrainingJobStatus": "Completed",
        "SecondaryStatus": "Completed",
        "ResourceConfig": {
            "InstanceGroups": [group("a", "ml.c5.xlarge", 2), group("b", "ml.g5.xlarge", 1)]
        },
        **fields,
    }


DOCUMENT = JobDocument(
    roles={"a": Role.DATA, "b": Role.TRAIN}, trainer=TrainerPart(entry_point="train.py")
)


def epoch(rank, wait, total):
    fields = {"steps": 20, "wait_seconds": wait, "total_seconds": total}
    return format_event("data_epoch", host="algo-3", rank=rank, **fields)


SERVED = format_event(
    "batches_served",
    host="algo-3",
    group="b",
    by_host={"algo-1": 20, "algo-2": 21},
    received={"0": 21, "1": 20},
)


def data(*lines):
    return summarise(description(), DOCUMENT, lines)["data"]


def test_hosts_are_numbered_in_the_order_of_the_groups():
    groups = host_groups(description())
    assert [(group.name, group.hosts) for group in groups] == [
        ("a", ("algo-1", "algo-2")),
        ("b", ("algo-3",)),
    ]


def test_a_job_without_groups_has_one():
    resources = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 11}
    (only,) = host_groups(description(ResourceConfig=resources))
    assert only.name == "homogeneousCluster"
    assert only.hosts[9:] == ("algo-10", "algo-11")


def test_billable_seconds_count_every_host():
    groups = summarise(description(BillableTimeInSeconds=60), DOCUMENT, [])["groups"]
    assert [(group["role"], group["billable_seconds"]) for group in groups] == [
        ("data", 120),
        ("train", 60),
    ]


@pytest.mark.parametrize(
    ("status", "code"),
    [("Completed", 0), ("Failed", 1), ("Stopped", 3), ("InProgress", None), ("Stopping", None)],
)
def test_exit_codes(status, code):
    assert summarise(description(TrainingJobStatus=status), DOCUMENT, [])["exit_code"] == code


def test_without_a_document_the_roles_are_not_known():
    groups = summarise(description(), None, [])["groups"]
    assert [group["role"] for group in groups] == [None, None]


def test_the_data_measure():
    assert data("text", epoch(1, 0.3, 4.0), epoch(0, 0.5, 4.0), SERVED) == {
        "batches_by_host": {"algo-1": 20, "algo-2": 21},
        "batches_received": {"0": 20, "1": 20},
        "wait_share": 0.1,
        "skipped": 0,
        "warnings": [],
        "metrics": {},
        "verdict": None,
    }


def test_a_data_host_that_prepared_nothing_is_named():
    served = format_event("batches_served", by_host={"algo-1": 41, "algo-2": 0}, received={"0": 41})
    assert data(served)["batches_by_host"] == {"algo-1": 41, "algo-2": 0}


@pytest.mark.parametrize(
    ("status", "warned"), [("Completed", True), ("Stopped", False), ("InProgress", False)]
)
def test_data_hosts_that_no_script_asked_are_a_possible_mistake(status, warned):
    served = format_event("batches_served", by_host={"algo-1": 0, "algo-2": 0}, received={})
    found = summarise(description(TrainingJobStatus=status), DOCUMENT, [served])["data"]
    words = "a had nothing to do: the script did not read with launcher.data.DataLoader"
    assert found["warnings"] == ([words] if warned else [])


def test_in_process_loading_has_a_wait_and_no_data_hosts():
    assert data(epoch(0, 1.0, 4.0)) == {
        "batches_by_host": {},
        "batches_received": {"0": 20},
        "wait_share": 0.25,
        "skipped": 0,
        "warnings": [],
        "metrics": {},
        "verdict": None,
    }


def test_files_that_were_lost_with_a_host_are_losses() -> None:
    lost = format_event("files_lost", files="/opt/ml/code/model.pt (1.5 kB)")
    (loss,) = summarise(description(LocalLosses=[]), DOCUMENT, [lost])["losses"]
    assert loss.endswith("New files elsewhere, which are lost: /opt/ml/code/model.pt (1.5 kB)")


def test_skipped_samples_and_possible_mistakes_are_reported():
    skips = format_event("data_epoch", rank=0, steps=2, wait_seconds=0, total_seconds=1, skipped=3)
    apart = format_event("ranks_begin_apart", stream="train", why="rank 1 begins elsewhere")
    found = data(skips, skips, apart)
    assert found["skipped"] == 6
    assert found["warnings"] == ["train: rank 1 begins elsewhere"]


def test_metrics_are_the_latest_of_each_kind_and_the_verdict_is_the_last():
    figures = ({"algo-1": {"bytes": 1.0}}, {"algo-2": {"bytes": 2.0}}, {"algo-1": {"bytes": 3.0}})
    told = [format_event("data_metrics", of="hosts", figures=each) for each in figures]
    words = {"bound": "workers", "wait_share": 0.37, "busy": 0.98, "more": 6, "text": "about 6"}
    found = data(epoch(0, 1.0, 4.0), *told, format_event("data_verdict", host="algo-3", **words))
    assert found["metrics"] == {"hosts": {"algo-1": {"bytes": 3.0}, "algo-2": {"bytes": 2.0}}}
    assert found["verdict"] == {**words, "margin": 0.0, "is_waiting": None}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("launcher: batches_served by_host=5 received={}", id="another type"),
        pytest.param("launcher: data_epoch rank=0", id="fields missing"),
        pytest.param("launcher: data_metrics of=hosts figures=5", id="metrics of another type"),
        pytest.param("launcher: data_verdict text=bound", id="half a verdict"),
        pytest.param("launcher: data_epoch wait_seconds=0.1 total_seconds=0.launcher:", id="torn"),
        pytest.param("  " + SERVED, id="not at the start"),
    ],
)
def test_lines_that_only_look_like_events_count_nothing(line):
    assert data(line) is None


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("s3://bucket/out", "with `aws s3 cp --recursive` from s3://bucket/out/job-1/output/ to "),
        ("file:///home/out/", "as files from file:///home/out/job-1/output/ to "),
    ],
)
def test_how_uncompressed_results_are_copied(tmp_path: Path, place: str, words: str) -> None:
    output = {"S3OutputPath": place, "CompressionType": "NONE"}
    description = {"TrainingJobName": "job-1", "OutputDataConfig": output}
    with pytest.raises(PlatformError, match=words):
        download_artifacts(MemorySession(), description, tmp_path)  # type: ignore[arg-type]
