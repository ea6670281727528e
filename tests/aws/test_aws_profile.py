"""`launcher plan measure --from-job` of a job that ran on SageMaker."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner
from front import Alter

from launcher.client.cli import main

GROUP = "/aws/sagemaker/TrainingJobs"
GROUPS = [
    {"InstanceGroupName": "data_group", "InstanceType": "ml.c5.9xlarge", "InstanceCount": 2},
    {"InstanceGroupName": "train_group", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
]
FIGURES = {"batches": 100, "bytes": 3.2e6, "prepared": 100, "cpu": 1.6, "longest": 0.25}
LINES = [
    "launcher: data_epoch host=algo-3 group=train_group rank=0 stream=pipeline:train_set epoch=0 "
    "steps=50 samples=1600 pads=0 drops=0 wait_seconds=1 total_seconds=6 waits={}",
    "launcher: host_usage host=algo-3 group=train_group cpu=0.5 cpus=4 memory_bytes=1000 gpu=0.6 "
    "gpu_memory_bytes=7",
]


@pytest.fixture
def profiled(past, prepared, front, tmp_path, monkeypatch):
    """Profile a job whose hosts have logged these figures."""

    def profile(hosts, *words, groups=GROUPS):
        past("sagemaker").create_training_job(**prepared("job-1").request)
        front.meet(
            "DescribeTrainingJob",
            *[
                Alter(
                    {
                        "TrainingJobStatus": "Completed",
                        "ResourceConfig": {"InstanceGroups": groups, "VolumeSizeInGB": 30},
                    }
                )
            ]
            * 99,
        )
        metrics = json.dumps(hosts, separators=(",", ":"))
        head = "launcher: data_metrics host=algo-3 group=train_group of=hosts"
        logs, stream = past("logs"), "job-1/algo-3-1"
        logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        began = int(time.time() * 1000) - 60_000
        lines = [*LINES, f"{head} figures={metrics} final=true"]
        events = [{"timestamp": began + n, "message": line} for n, line in enumerate(lines)]
        logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)
        runner = CliRunner(env={"LAUNCHER_HOME": str(tmp_path / "home"), "LAUNCHER_PRICES": None})
        words = ["plan", "measure", "--from-job", "job-1", "-o", "json", *words]
        result = runner.invoke(main, words, catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        (found,) = json.loads(result.stdout)["profiles"]
        return found

    return profile


@pytest.mark.long
def test_the_family_and_the_accelerator_are_those_of_the_jobs_hosts(profiled):
    found = profiled({"algo-1": FIGURES, "algo-2": FIGURES})

    assert found["cpu_speed"] == {"c5": 1}
    assert found["cpu_seconds_per_sample"]["mean"] == pytest.approx(1.6 / 100 / 32)
    assert found["gpu_seconds_per_step"] == {"NVIDIA A10G": 0.1}
    assert found["samples_per_epoch"] == 1600
    assert (found["measured"]["cpu"], found["measured"]["cpus"]) == ("ml.c5.9xlarge", 36)


@pytest.mark.long
def test_the_figures_are_those_of_the_family_that_prepared_most(profiled):
    few = {**FIGURES, "prepared": 10, "cpu": 16.0}
    found = profiled({"algo-1": FIGURES, "algo-3": few})

    assert found["cpu_speed"] == {"c5": 1}
    assert found["cpu_seconds_per_sample"]["mean"] == pytest.approx(1.6 / 100 / 32)


@pytest.mark.long
def test_a_type_that_the_catalogue_has_not_has_no_family(profiled):
    unknown = [{**GROUPS[0], "InstanceType": "ml.zz9.large"}, GROUPS[1]]
    found = profiled({"algo-1": FIGURES}, groups=unknown)

    assert found["cpu_speed"] == {}
    assert found["measured"]["family"] == "unknown"
