"""What AWS would refuse in a request is told before it is sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from request_mutants import ELEVEN

from launcher.client.request import JobLocation, aws_answer, find_violations, prepare
from launcher.client.sessions import LOCAL_PLATFORM
from launcher.errors import SpecError, dotted

GOLDEN = Path(__file__).parent / "golden"
REQUESTS = sorted(
    path for path in GOLDEN.glob("*.json") if not path.name.endswith(".launcher.json")
)


def golden(name="homogeneous"):
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_the_golden_requests_are_accepted(path):
    assert find_violations(json.loads(path.read_text())) == ()


def test_eleven_violations_are_reported_with_their_paths():
    assert sorted(dotted(found.path) for found in find_violations(ELEVEN.request)) == [
        "AlgorithmSpecification.TrainingImage",
        "AlgorithmSpecification.TrainingInputMode",
        "HyperParameters",
        "HyperParameters.p0",
        "InputDataConfig[0].CompressionType",
        "InputDataConfig[0].DataSource.S3DataSource.S3Uri",
        "ResourceConfig.KeepAlivePeriodInSeconds",
        "RetryStrategy.MaximumRetryAttempts",
        "RoleArn",
        "TrainingJobName",
        "TrainingJobName",
    ]


# In AWS's words ------------------------------------------------------


def test_one_violation_in_the_words_of_aws():
    request = golden()
    request["InputDataConfig"][0]["CompressionType"] = "Zip"
    assert aws_answer(find_violations(request)) == (
        "1 validation error detected: Value 'Zip' at 'inputDataConfig.1.member.compressionType' "
        "failed to satisfy constraint: Member must satisfy enum value set: [None, Gzip]"
    )


def test_several_violations_are_one_message():
    request = golden()
    request["TrainingJobName"] = "my_job" * 11
    del request["RoleArn"]
    assert aws_answer(find_violations(request)) == (
        "3 validation errors detected: "
        "Value null at 'roleArn' failed to satisfy constraint: Member must not be null; "
        f"Value '{'my_job' * 11}' at 'trainingJobName' failed to satisfy constraint: "
        "Member must have length less than or equal to 63; "
        f"Value '{'my_job' * 11}' at 'trainingJobName' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
    )


def test_aws_reports_a_whole_list_for_one_entry_of_it():
    request = golden()
    request["VpcConfig"] = {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1", "s" * 33]}
    (found,) = find_violations(request)
    assert dotted(found.path) == "VpcConfig.SecurityGroupIds[1]"
    assert aws_answer([found]) == (
        f"1 validation error detected: Value '[sg-1, {'s' * 33}]' at 'vpcConfig.securityGroupIds' "
        "failed to satisfy constraint: Member must satisfy constraint: [Member must have length "
        "less than or equal to 32, Member must have length greater than or equal to 0, Member must "
        "satisfy regular expression pattern: [-0-9a-zA-Z]+]"
    )


def test_the_limits_of_the_model_are_reported_before_the_rules():
    request = golden()
    request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 100_000
    rule = aws_answer(find_violations(request))
    assert rule.startswith("Invalid MaxWaitTimeInSeconds.")
    request["RoleArn"] = "x"
    assert aws_answer(find_violations(request)).startswith("2 validation errors detected: ")


def test_a_warning_is_no_answer():
    request = golden()
    request["ResourceConfig"]["InstanceType"] = "ml.g99.xlarge"
    (found,) = find_violations(request)
    assert found.is_warning
    assert aws_answer([found]) == ""


# What is no request at all ------------------------------------------------------


@pytest.mark.parametrize(
    "value", [[], "text", None, 7, {7: 7}, {"Tags": {}}, {"ResourceConfig": {"InstanceGroups": 7}}]
)
def test_anything_may_be_held_against_the_model(value):
    assert find_violations(value)


@pytest.mark.parametrize(
    ("change", "path", "word"),
    [
        pytest.param({"InputDataConfg": []}, "InputDataConfg", '"InputDataConfig"', id="near"),
        pytest.param({"Zzz": 1}, "Zzz", "upgrade boto3", id="newer"),
        pytest.param(
            {"StoppingCondition": {"MaxRuntimeInSeconds": "60"}}, "", "integer", id="text"
        ),
        pytest.param(
            {"StoppingCondition": {"MaxRuntimeInSeconds": True}}, "", "integer", id="truth"
        ),
        pytest.param({"EnableNetworkIsolation": 1}, "", "true or false", id="number"),
        pytest.param({"Environment": {"A": 1}}, "Environment.A", "a text", id="entry"),
    ],
)
def test_unknown_fields_and_wrong_types(change, path, word):
    (found,) = find_violations({**golden(), **change})
    assert word in found.fix
    assert dotted(found.path).startswith(path)


@pytest.mark.parametrize(
    ("key", "is_accepted"),
    [
        pytest.param("Zürich 2_.:/=+-@", True, id="letters of any language"),
        pytest.param("a\u2003b", True, id="a space of any width"),
        pytest.param("a\tb", False, id="tab"),
        pytest.param("a*", False, id="star"),
        pytest.param("☃", False, id="symbol"),
    ],
)
def test_the_categories_of_java_are_understood(key, is_accepted):
    request = {**golden(), "Tags": [{"Key": key, "Value": ""}]}
    assert (find_violations(request) == ()) is is_accepted


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_a_dot_of_java_stops_at_every_line_end(end):
    assert find_violations({**golden(), "HyperParameters": {"a": f"1{end}2"}})


# Before a job is sent ------------------------------------------------------


def placement(**fields):
    return JobLocation(
        **{
            "job_name": "job-1",
            "role_arn": "arn:aws:iam::111122223333:role/Training",
            "image_uri": "image:1",
            "code_uri": "s3://my-bucket/job-1/code/",
            "output_uri": "s3://my-bucket/output",
            "token": "0" * 32,
            **fields,
        }
    )


def test_a_job_is_not_prepared_for_aws_when_aws_would_refuse_it(source):
    spec = source.spec(instance_type="ml.m5.xlarge")
    with pytest.raises(SpecError) as refused:
        prepare(spec, placement(output_uri="bucket", role_arn="arn:aws:iam::1111:role/Training"))
    places = [problem.where for problem in refused.value.problems]
    assert places == ["OutputDataConfig.S3OutputPath", "RoleArn"]


@pytest.mark.parametrize(
    ("extra", "place", "word"),
    [
        pytest.param(
            {"StoppingCondition": {"MaxPendingTimeInSeconds": 60}},
            "StoppingCondition.MaxPendingTimeInSeconds",
            "to 2419200",  # from another number in older models
            id="a limit",
        ),
        pytest.param({"RetryStrateg": {}}, "RetryStrateg", '"RetryStrategy"', id="a near-miss"),
        pytest.param(
            {"FieldOfTomorrow": 1}, "FieldOfTomorrow", "upgrade boto3", id="a newer field"
        ),
    ],
)
def test_what_is_added_to_the_request_is_judged_like_the_rest(source, extra, place, word):
    spec = source.spec(instance_type="ml.m5.xlarge", extra_request=extra)
    with pytest.raises(SpecError) as refused:
        prepare(spec, placement())
    (problem,) = refused.value.problems
    assert problem.where == place
    assert word in problem.fix


def test_the_spec_speaks_first(source):
    with pytest.raises(SpecError, match="max_run") as refused:
        prepare(source.spec(max_run=0), placement(output_uri="bucket"))
    assert "S3OutputPath" not in str(refused.value)


def test_a_job_of_this_machine_is_not_judged_as_one_of_aws(source):
    here = placement(judge=LOCAL_PLATFORM.judge, output_uri="file:///tmp/output", image_uri="")
    assert prepare(source.spec(), here).warnings == ()


def test_botocore_is_loaded_when_a_request_is_judged():
    program = "import sys, launcher.client.request.prepared; print('botocore' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=540, check=True
    )
    assert run.stdout == "False\n"
