"""What AWS refuses is refused, with AWS's codes and in AWS's words."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError
from customer import BUCKET, GROUP, ROLE, Customer, channel, request
from request_mutants import ELEVEN, MUTANTS
from test_endpoint_gate import answer, signed

from launcher.client.endpoint import encode_token
from launcher.client.request import aws_answer, find_violations

GROUPS = {
    "VolumeSizeInGB": 10,
    "InstanceGroups": [
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "train", "InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
    ],
}


#: There are objects below it.
THERE = f"s3://{BUCKET}/there/"


def constraint(value: str, where: str, what: str) -> str:
    return f"Value {value} at '{where}' failed to satisfy constraint: {what}"


#: (changes of a good request, part of AWS's message)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no role": ({"RoleArn": None}, constraint("null", "roleArn", "Member must not be null")),
    "no role ARN": (
        {"RoleArn": "LauncherLocalRole" * 2},
        constraint(f"'{'LauncherLocalRole' * 2}'", "roleArn", "Member must satisfy regular"),
    ),
    "name with an underscore": (
        {"TrainingJobName": "my_job"},
        constraint("'my_job'", "trainingJobName", "Member must satisfy regular expression"),
    ),
    "files of this machine": (
        {"InputDataConfig": [channel("train", "file:///etc/passwd")]},
        "inputDataConfig.1.member.dataSource.s3DataSource.s3Uri",
    ),
    "seven groups": (
        {"ResourceConfig": {**GROUPS, "InstanceGroups": GROUPS["InstanceGroups"] * 4}},
        "resourceConfig.instanceGroups",
    ),
    "groups and a type": (
        {"ResourceConfig": {**GROUPS, "InstanceType": "ml.m5.large", "InstanceCount": 1}},
        "InstanceType or InstanceCount cannot be specified with InstanceGroups",
    ),
    "some channels routed": (
        {
            "ResourceConfig": GROUPS,
            "InputDataConfig": [
                channel("a", THERE, InstanceGroupNames=["data"]),
                channel("b", THERE),
            ],
        },
        "Some channels have assigned instance groups: [a] while others not: [b]",
    ),
    "max wait without spot": (
        {"StoppingCondition": {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 2}},
        "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set",
    ),
    "no objects": (
        {"InputDataConfig": [channel("train", f"s3://{BUCKET}/nothing/here")]},
        f'No S3 objects found under S3 URL "s3://{BUCKET}/nothing/here" given in input data source.'
        " Please ensure that the bucket exists in the selected region (us-east-1), that objects "
        f'exist under that S3 prefix, and that the role "{ROLE}" has "s3:ListBucket" permissions '
        f'on bucket "{BUCKET}".',
    ),
    "no bucket": (
        {"InputDataConfig": [channel("train", "s3://no-such-bucket/data")]},
        'No S3 objects found under S3 URL "s3://no-such-bucket/data"',
    ),
    "no output bucket": (
        {"OutputDataConfig": {"S3OutputPath": "s3://no-such-bucket/out"}},
        "The S3 bucket of OutputDataConfig, no-such-bucket, does not exist",
    ),
    "what this machine cannot do": (
        {"InputDataConfig": [{**channel("train", THERE), "InputMode": "Pipe"}]},
        "InputMode 'Pipe' is not known to local jobs",
    ),
}


@pytest.fixture(scope="module")
def unchecked(customer: Customer) -> Any:
    """A client that sends what it is given."""
    customer.upload_code("bad", "pass")
    customer.s3.put_object(Bucket=BUCKET, Key="there/data", Body=b"data")
    return customer.endpoint.client("sagemaker", config=Config(parameter_validation=False))


@pytest.mark.long
@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_request_is_refused(customer: Customer, unchecked: Any, case: str) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(ClientError) as caught:
        unchecked.create_training_job(**request("bad", **changes))
    answer = caught.value.response
    assert answer["Error"]["Code"] == "ValidationException"
    assert message in answer["Error"]["Message"]
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert len(answer["ResponseMetadata"]["RequestId"]) == 36
    names = [
        job["TrainingJobName"] for job in unchecked.list_training_jobs()["TrainingJobSummaries"]
    ]
    assert "bad" not in names


@pytest.mark.parametrize(
    "case", [case for case in (*MUTANTS, ELEVEN) if not case.is_warning], ids=lambda case: case.name
)
def test_what_the_validator_finds_is_refused_in_aws_s_words(unchecked: Any, case: Any) -> None:
    case.skip_if_newer()
    with pytest.raises(ClientError) as caught:
        unchecked.create_training_job(**case.request)
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": aws_answer(find_violations(case.request)),
    }


@pytest.mark.long
def test_the_same_request_without_a_fault_is_taken(customer: Customer, unchecked: Any) -> None:
    customer.upload_code("good", "pass")
    groups = ["data", "train"]
    code = channel("code", f"s3://{BUCKET}/code/good/", InstanceGroupNames=groups)
    data = channel("train", THERE, InstanceGroupNames=["train"])
    unchecked.create_training_job(
        **request("good", InputDataConfig=[code, data], ResourceConfig=GROUPS)
    )
    assert customer.end_of("good")["TrainingJobStatus"] == "Completed"


@pytest.mark.long
def test_of_many_jobs_with_one_name_there_is_one(customer: Customer) -> None:
    customer.upload_code("many", "pass")

    def outcome(_number: int) -> str:
        try:
            customer.sagemaker.create_training_job(**request("many"))
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "created"

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(outcome, range(16)))
    assert sorted(outcomes) == ["ResourceInUse"] * 15 + ["created"]
    assert customer.end_of("many")["TrainingJobStatus"] == "Completed"


@pytest.mark.long
def test_a_name_is_taken_once(customer: Customer) -> None:
    arn = customer.submit("twice", "pass")
    with pytest.raises(ClientError) as caught:
        customer.submit("twice", "pass")
    assert caught.value.response["Error"] == {
        "Code": "ResourceInUse",
        "Message": "Training job names must be unique within an AWS account and region, and a "
        f"training job with this name already exists ({arn})",
    }
    assert customer.end_of("twice")["TrainingJobStatus"] == "Completed"


@pytest.mark.parametrize("operation", ["describe", "stop", "delete", "update"])
def test_a_job_that_is_not_known(customer: Customer, operation: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(customer.sagemaker, f"{operation}_training_job")(TrainingJobName="nobody")
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Requested resource not found.",
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("stop", "The request was rejected because the training job is in status Completed"),
        ("update", "a local job has none of them"),
    ],
)
def test_what_an_ended_job_does_not_do(customer: Customer, operation: str, message: str) -> None:
    name = f"ended-{operation}"
    customer.submit(name, "pass")
    customer.end_of(name)
    with pytest.raises(ClientError, match=message):
        getattr(customer.sagemaker, f"{operation}_training_job")(TrainingJobName=name)


def test_a_value_of_another_type(unchecked: Any) -> None:
    with pytest.raises(ClientError, match="SerializationException"):
        unchecked.describe_training_job(TrainingJobName=["a"])


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"Resource": "TrainingJob", "SearchExpression": %b{}%b}'
        % (b'{"SubExpressions": [' * 400, b"]}" * 400),
    ],
    ids=["brackets", "expressions"],
)
def test_a_body_that_is_nested_too_deeply(customer: Customer, body: bytes) -> None:
    headers = signed(customer, body, **{"X-Amz-Target": "SageMaker.Search"})
    status, document = answer(customer, headers, body)
    assert (status, document["__type"]) == (400, "SerializationException")


#: Not Base64, not JSON, not a pair, of another order, with keys of other types, nested too deep.
BAD_TOKENS = ["nonsense", "\u00e9", "bm9uZQ==", "NQ==", "WzEsMiwzXQ==", "WyJhIiwgWyJiIiwgImMiXV0="]
BAD_TOKENS += [
    encode_token("ListTrainingJobs CreationTime descending", ["text", 5]),
    encode_token("Search LastModifiedTime descending", [["text"], 5]),
    urlsafe_b64encode(b"[" * 6000).decode(),
]


@pytest.mark.long
@pytest.mark.parametrize("token", BAD_TOKENS, ids=range(len(BAD_TOKENS)))
@pytest.mark.parametrize("operation", ["list_training_jobs", "search", "list_models", "list_tags"])
def test_a_token_of_no_page(customer: Customer, unchecked: Any, operation: str, token: str) -> None:
    customer.ensure("has-tokens")
    arguments = {
        "search": {"Resource": "TrainingJob"},
        "list_tags": {"ResourceArn": customer.describe("has-tokens")["TrainingJobArn"]},
    }
    with pytest.raises(ClientError) as caught:
        getattr(unchecked, operation)(NextToken=token, **arguments.get(operation, {}))
    assert caught.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Invalid NextToken",
    }


@pytest.mark.long
def test_a_token_of_another_order(customer: Customer, unchecked: Any) -> None:
    for name in ("first-of-two", "second-of-two"):
        customer.ensure(name)
    token = unchecked.list_training_jobs(MaxResults=1)["NextToken"]
    assert unchecked.list_training_jobs(MaxResults=1, NextToken=token)["TrainingJobSummaries"]
    for other in ({"SortBy": "Name"}, {"SortOrder": "Ascending"}):
        with pytest.raises(ClientError, match="Invalid NextToken"):
            unchecked.list_training_jobs(NextToken=token, **other)


def test_a_page_that_is_too_large(unchecked: Any) -> None:
    with pytest.raises(ClientError, match="Member must have value less than or equal to 100"):
        unchecked.list_training_jobs(MaxResults=101)


def test_what_else_sagemaker_has(unchecked: Any) -> None:
    with pytest.raises(ClientError, match="does not support DescribeModel: it has training jobs"):
        unchecked.describe_model(ModelName="any")
    assert unchecked.list_models()["Models"] == []
    assert (
        unchecked.list_hyper_parameter_tuning_jobs(StatusEquals="Completed")[
            "HyperParameterTuningJobSummaries"
        ]
        == []
    )
    assert unchecked.search(Resource="Experiment")["Results"] == []


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        (
            "list_training_jobs_for_hyper_parameter_tuning_job",
            {"HyperParameterTuningJobName": "nobody"},
            "ResourceNotFound",
        ),
        ("list_inference_recommendations_job_steps", {"JobName": "nobody"}, "ResourceNotFound"),
        ("list_hyper_parameter_tuning_jobs", {"StatusEquals": "Good"}, "ValidationException"),
        ("list_hyper_parameter_tuning_jobs", {"MaxResults": 0}, "ValidationException"),
    ],
)
def test_lists_of_what_is_not_there(
    unchecked: Any, operation: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(unchecked, operation)(**arguments)
    assert caught.value.response["Error"]["Code"] == code


def test_every_list_is_answered(unchecked: Any) -> None:
    model = unchecked.meta.service_model
    lists = [
        name
        for name in model.operation_names
        if name.startswith("List") and not model.operation_model(name).input_shape.required_members
    ]
    for name in lists:
        answer = getattr(unchecked, xform_name(name))()
        assert [value for value in answer.values() if isinstance(value, list)], name


def test_a_number_for_the_name_of_a_group_is_refused_as_aws_does(customer: Customer) -> None:
    raw = Config(parameter_validation=False, retries={"max_attempts": 0})
    with pytest.raises(ClientError) as caught:
        customer.endpoint.client("logs", config=raw).get_log_events(logGroupName=5)
    response = caught.value.response
    assert response["Error"]["Code"] == "ResourceNotFoundException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["ResponseMetadata"]["RequestId"]
    assert not customer.sagemaker.list_training_jobs(NameContains="no-job")["TrainingJobSummaries"]


@pytest.mark.long
@pytest.mark.parametrize("stream", ["a" * 400 + "/algo-1-1", "a\0b/algo-1-1"])
def test_a_stream_of_no_job(customer: Customer, stream: str) -> None:
    customer.submit(f"has-an-entry-{len(stream)}", "pass")
    lenient = Config(parameter_validation=False)
    with pytest.raises(ClientError) as caught:
        customer.endpoint.client("logs", config=lenient).get_log_events(
            logGroupName=GROUP, logStreamName=stream
        )
    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
