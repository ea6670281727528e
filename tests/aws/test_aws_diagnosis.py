"""The diagnosis of a job of any SDK on SageMaker, from what CloudWatch has of its hosts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from click.testing import CliRunner
from front import Alter, Refuse

from launcher import Job, diagnose, report
from launcher.client.cli import main
from launcher.client.sessions import NAMESPACE
from launcher.shared import WAIT_METRIC, Confidence, StepLimit

#: An hour some days ago: CloudWatch takes no values older than two weeks.
START = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(days=5)
MINUTES = 12


def described(instance_type, count=1):
    """What DescribeTrainingJob says of a job that trained for MINUTES."""
    times = {"StartTime": START.timestamp(), "EndTime": START.timestamp() + 60 * MINUTES}
    return Alter(
        {
            "ResourceConfig": {
                "InstanceType": instance_type,
                "InstanceCount": count,
                "VolumeSizeInGB": 30,
            },
            "SecondaryStatusTransitions": [{"Status": "Training", **times}],
            "TrainingStartTime": times["StartTime"],
            "TrainingEndTime": times["EndTime"],
        }
    )


def put_percent(past, host, metrics):
    """Put what CloudWatch has of a host in each of MINUTES."""
    past("cloudwatch").put_metric_data(
        Namespace=NAMESPACE,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": "Host", "Value": host}],
                "Timestamp": START + timedelta(minutes=minute),
                "Value": value,
            }
            for name, value in metrics.items()
            for minute in range(MINUTES)
        ],
    )


@pytest.fixture
def job(past, prepared, session, front):
    """A job whose hosts have CloudWatch's percent of CPUs and GPUs, of MINUTES minutes."""

    def make(instance_type, hosts):
        past("sagemaker").create_training_job(**prepared("job-1").request)
        front.meet("DescribeTrainingJob", *[described(instance_type, len(hosts))] * 99)
        for number, metrics in enumerate(hosts, start=1):
            put_percent(past, f"job-1/algo-{number}", metrics)
        return Job("job-1", session)

    return make


@pytest.mark.long
def test_all_vcpus_busy_and_half_of_the_gpus(job):
    """AWS's published job: 9,500 % of 96 vCPU, and 360 % of 8 GPUs."""
    found = diagnose(job("ml.p4d.24xlarge", [{"CPUUtilization": 9500, "GPUUtilization": 360}]))

    assert (found.limit, found.confidence) == (StepLimit.INPUT, Confidence.HIGH)
    (group,) = found.evidence.groups
    assert (group.trains, group.points) == (True, MINUTES - 2)
    assert group.cpu == pytest.approx(9500 / 9600)
    assert group.gpu == pytest.approx(0.45)
    assert found.evidence.sources == ("CloudWatch, every 60 s",)
    assert found.advice[0].what.startswith("add a data group of ")


@pytest.mark.long
def test_the_report_draws_the_use_of_hosts(job):
    html = report(job("ml.g5.8xlarge", [{"CPUUtilization": 800, "GPUUtilization": 30}] * 2)).html

    assert "host/cpu, homogeneousCluster" in html
    assert "host/gpu, homogeneousCluster" in html
    assert "algo-2" in html
    assert "$6.12" in html  # two of $3.06 an hour


@pytest.mark.long
def test_a_hundred_percent_is_one_gpu_of_eight(job):
    found = diagnose(job("ml.p4d.24xlarge", [{"CPUUtilization": 4800, "GPUUtilization": 100}]))

    (group,) = found.evidence.groups
    assert (group.cpu, group.gpu) == (pytest.approx(0.5), pytest.approx(0.125))
    assert found.limit is StepLimit.NOT_SURE  # one rank of eight, storage, a slow loader


@pytest.mark.long
def test_all_gpus_busy(job):
    found = diagnose(job("ml.p4d.24xlarge", [{"CPUUtilization": 2000, "GPUUtilization": 780}] * 2))

    assert (found.limit, found.confidence) == (StepLimit.COMPUTE, Confidence.MEDIUM)
    assert found.advice[0].what.startswith("do not add a data group")


@pytest.mark.long
def test_a_heterogeneous_job_that_boto3_alone_has_made(past, session, front):
    """No job document, no code channel, no metric of Launcher's: types and CloudWatch are all."""
    groups = [
        {"InstanceGroupName": "feeders", "InstanceType": "ml.c5.9xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "gpus", "InstanceType": "ml.g5.12xlarge", "InstanceCount": 1},
    ]
    past("sagemaker").create_training_job(
        TrainingJobName="other-1",
        RoleArn="arn:aws:iam::111122223333:role/Training",
        AlgorithmSpecification={
            "TrainingImage": "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1",
            "TrainingInputMode": "FastFile",
        },
        HyperParameters={"sagemaker_program": '"train.py"'},
        OutputDataConfig={"S3OutputPath": "s3://bucket/output"},
        ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 30},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
    alter = described("unused")
    alter.fields["ResourceConfig"] = {"InstanceGroups": groups, "VolumeSizeInGB": 30}
    front.meet("DescribeTrainingJob", *[alter] * 99)
    for number, percent in enumerate((3500, 3560, 900), start=1):
        metrics = {"CPUUtilization": percent} | ({"GPUUtilization": 180} if number == 3 else {})
        put_percent(past, f"other-1/algo-{number}", metrics)
    found = diagnose(Job("other-1", session))

    assert (found.limit, found.confidence) == (StepLimit.INPUT, Confidence.HIGH)
    assert [(group.name, group.trains) for group in found.evidence.groups] == [
        ("feeders", False),
        ("gpus", True),
    ]
    assert found.evidence.groups[0].cpu == pytest.approx(3530 / 3600)
    assert "the CPUs of the data hosts are 98% busy" in found.finding.why
    assert "feeders" in found.advice[0].what


@pytest.mark.long
def test_one_vcpu_busy_is_no_bottleneck(job):
    found = diagnose(job("ml.g5.8xlarge", [{"CPUUtilization": 100, "GPUUtilization": 30}]))

    assert found.limit is StepLimit.NOT_SURE
    assert "CPUs 3%" in found.finding.why


@pytest.mark.long
def test_the_host_that_differs_is_named_on_the_command_line(job):
    busy, idle = {"CPUUtilization": 400, "GPUUtilization": 80}, {"GPUUtilization": 30}
    job("ml.g5.8xlarge", [busy, busy, idle, busy])
    result = CliRunner().invoke(main, ["diagnose", "job-1", "--cloud", "--json"])

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["limit"], found["culprit"], found["confidence"]) == (
        "imbalanced",
        "algo-3",
        "low",
    )


@pytest.mark.long
def test_the_wait_for_data_is_read_where_the_logs_are_not(job, front, past):
    made = job("ml.g5.8xlarge", [{"CPUUtilization": 3150, "GPUUtilization": 30}])
    past("cloudwatch").put_metric_data(
        Namespace=NAMESPACE,
        MetricData=[
            {
                "MetricName": WAIT_METRIC,
                "Dimensions": [{"Name": "TrainingJobName", "Value": "job-1"}],
                "Timestamp": START + timedelta(minutes=minute),
                "Value": 0.4 if minute else 0.9,
            }
            for minute in range(MINUTES)
        ],
    )
    front.meet("DescribeLogStreams", *[Refuse("AccessDeniedException", "no logs for you")] * 9)
    found = diagnose(made)

    assert (found.limit, found.confidence) == (StepLimit.INPUT, Confidence.HIGH)
    assert found.evidence.data.share == pytest.approx(0.4)
    assert "40% of the time is waited" in found.finding.why


@pytest.mark.long
def test_without_access_it_says_what_it_could_not_read(job, front):
    made = job("ml.g5.8xlarge", [{"CPUUtilization": 3200, "GPUUtilization": 30}])
    front.meet("GetMetricData", *[Refuse("AccessDeniedException", "no figures for you")] * 9)
    front.meet("DescribeLogStreams", *[Refuse("AccessDeniedException", "no logs for you")] * 9)
    found = diagnose(made)

    assert found.limit is StepLimit.NOT_SURE
    assert any("no figures for you" in each for each in found.evidence.missing)
    assert any("no logs for you" in each for each in found.evidence.missing)
